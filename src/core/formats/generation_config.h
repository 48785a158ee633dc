// A publisher's recommended sampling options and end tokens: generation_config.json of a Hugging Face directory, or
// general.sampling.* and the tokens EOT and EOM of a GGUF.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/formats/gguf.h"

namespace folio::core {

struct StoredModel;

struct GenerationConfig {
  std::string where{};                       ///< path of the file
  std::map<std::string, double> sampling{};  ///< values that the file specifies, by field name of SamplerOptions
  std::vector<int32_t> end_tokens{};
};

/// Reads the configuration from `source`: "auto" (the model's own, or the end tokens of config.json if a directory has
/// no generation_config.json), "none" (empty), or a directory with a generation_config.json. Throws Error with file and
/// field if a value has the wrong type or is not finite, or an ID is not in the vocabulary. The sampler checks ranges.
[[nodiscard]] GenerationConfig read_generation_config(const StoredModel& model, const std::string& source = "auto");

/// Returns the sampling values as GGUF metadata.
[[nodiscard]] GgufMetadata generation_to_gguf(const GenerationConfig& config);

/// Writes generation_config.json with bos_token_id `begin_of_text`, and eos_token_id `end_of_text` and the other end
/// tokens. Writes nothing if there are neither these nor sampling values, since config.json has the rest.
void write_generation_config(const std::filesystem::path& directory, const GenerationConfig& config,
                             int32_t begin_of_text, int32_t end_of_text);

}  // namespace folio::core
