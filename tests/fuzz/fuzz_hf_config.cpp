// Fuzzes reading the config.json of a Hugging Face directory. Writes each accepted configuration and reads it back.
#include "core/formats/hf_model.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  const auto path = scratch_file("config.json", input);
  core::ModelConfig config;
  if (!accepted([&] { config = core::config_from_hf_json(path); }, path.string())) return false;
  const auto again = scratch_file("again.json", core::config_to_hf_json(config, 1, 2));
  check(core::config_from_hf_json(again) == config,
        "a configuration that is written as config.json is read as the same");
  return true;
}

}  // namespace folio::fuzz
