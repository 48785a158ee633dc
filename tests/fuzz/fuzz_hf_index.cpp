// Fuzzes reading model.safetensors.index.json, in a Hugging Face directory with a valid configuration and two shards.
#include <numeric>

#include "core/formats/hf_model.h"
#include "core/formats/safetensors.h"
#include "core/manifest.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"

namespace folio::fuzz {
namespace {

// Writes config.json. Writes the model's first five tensors to a.safetensors and the others to b.safetensors.
void write_directory() {
  const core::ModelConfig config{
      .vocab_size = 3, .dim = 2, .n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .hidden_dim = 1, .context_length = 8};
  std::vector<float> values(8);
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<core::TensorView> a;
  std::vector<core::TensorView> b;
  for (const core::TensorSpec& spec : core::tensor_manifest(config)) {
    const auto used = std::span(values).first(static_cast<size_t>(spec.elements()));
    (a.size() < 5 ? a : b).push_back({.name = spec.hf_name, .shape = spec.shape, .bytes = std::as_bytes(used)});
  }
  scratch_file("config.json", core::config_to_hf_json(config, 0, 0));
  core::write_safetensors(scratch_path("a.safetensors"), a);
  core::write_safetensors(scratch_path("b.safetensors"), b);
}

}  // namespace

bool take(std::string_view input) {
  static const bool written = (write_directory(), true);
  static_cast<void>(written);
  scratch_file("model.safetensors.index.json", input);
  const auto folder = scratch_path("");
  return accepted(
      [&] {
        const core::StoredModel model = core::read_hf_model(folder);
        touch_tensors(model.tensors);
        check(model.tensors.size() == core::tensor_manifest(model.config).size(), "a model has all of its tensors");
      },
      folder.string());
}

}  // namespace folio::fuzz
