// An adapter as peft saves it: adapter_config.json, a zero byte, adapter_model.safetensors.
#include <algorithm>

#include "core/formats/peft_adapter.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  const core::ModelConfig config{
      .vocab_size = 5, .dim = 4, .n_layers = 2, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 3, .context_length = 8};
  const size_t zero = std::min(input.find('\0'), input.size());
  scratch_file("adapter_config.json", input.substr(0, zero));
  scratch_file("adapter_model.safetensors", input.substr(std::min(zero + 1, input.size())));
  const auto folder = scratch_path("");
  return accepted(
      [&] {
        const core::Adapter adapter = core::read_adapter(folder, config);
        law(!adapter.parts.empty(), "an adapter adds something");
        for (const core::Adapter::Part& part : adapter.parts) {
          law(part.rank >= 1 && part.rank <= static_cast<size_t>(core::kMaxAdapterRank), "ranks are limited");
          law(!part.a.empty() && part.a.size() % part.rank == 0 && part.b.size() % part.rank == 0, "ranks fit");
          law(part.layer >= 0 && part.layer < config.n_layers, "parts are of layers");
        }
      },
      folder.string());
}

}  // namespace folio::fuzz
