// Fuzzes reading llama2.c's model files of versions 0, 1 and 2. Writes each accepted model and reads it back.
#include <optional>

#include "core/formats/llama2c.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  const auto path = scratch_file("model.bin", input);
  std::optional<core::StoredModel> model;
  if (!accepted([&] { model = core::read_llama2c(path); }, path.string())) return false;
  touch_tensors(model->tensors);
  // Doesn't write version 2, which rounds weights, nor version 0 if its RoPE tables would be large.
  for (const int version : {0, 1}) {
    if (version == 0 && model->config.context_length * model->config.head_dim > 4096) continue;
    const auto again = scratch_path("again.bin");
    core::write_llama2c(again, model->config, model->tensors, version);
    const core::StoredModel same = core::read_llama2c(again);
    check(same.config == model->config && same_tensors(same.tensors, model->tensors),
          "a llama2.c model that is written anew is read as the same");
  }
  return true;
}

}  // namespace folio::fuzz
