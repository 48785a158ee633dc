// How a model's publisher samples from it, and the tokens that end a text: generation_config.json of a Hugging Face
// directory, and general.sampling.* of a GGUF, which has no list of tokens.
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
  std::string where{};                       ///< the file
  std::map<std::string, double> sampling{};  ///< by SamplerOptions' names; only what the file specifies
  std::vector<int32_t> end_tokens{};

  [[nodiscard]] bool empty() const { return sampling.empty() && end_tokens.empty(); }
};

/// "auto": the model's own, with the end tokens of config.json where a directory has no generation_config.json;
/// "none": empty; else a directory with a generation_config.json. Throws Error that names file and field if a value has
/// the wrong type, is not finite, or is no id of the vocabulary; ranges are those of the sampler, which checks them.
[[nodiscard]] GenerationConfig read_generation_config(const StoredModel& model, const std::string& source = "auto");

/// The sampling values as metadata of a GGUF.
[[nodiscard]] GgufMetadata generation_to_gguf(const GenerationConfig& config);

/// Writes generation_config.json, unless there is nothing to say that config.json does not.
void write_generation_config(const std::filesystem::path& directory, const GenerationConfig& config,
                             int64_t begin_of_text);

}  // namespace folio::core
