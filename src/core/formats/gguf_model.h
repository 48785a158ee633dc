// A model in a GGUF file: metadata keys, prefixed with the architecture, and tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/gguf.h"
#include "core/weights.h"

namespace folio::core {

/// Tensors that are not weights but divisors of RoPE's frequencies.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr const char* kLongFactors = "rope_factors_long.weight";
inline constexpr const char* kShortFactors = "rope_factors_short.weight";

/// Returns the configuration of the model in a GGUF. Throws Error that names what is missing or not supported.
[[nodiscard]] ModelConfig config_from_gguf(const GgufFile& file);
[[nodiscard]] GgufMetadata config_to_gguf(const ModelConfig& config, const std::string& model_name);

/// Returns the configuration as a GGUF stores it. A window shorter than the context becomes the context length if the
/// architecture has no sliding window in GGUF. Mistral becomes llama.
[[nodiscard]] ModelConfig as_in_gguf(ModelConfig config);

/// Describes, in one line, what is lost when this model is written as a GGUF; empty if nothing is.
[[nodiscard]] std::string lost_in_gguf(const ModelConfig& config);

/// Returns the tensors of `config` as views, in manifest order. Throws Error if one is missing or has another shape, or
/// if the file has others.
[[nodiscard]] std::vector<TensorView> manifest_tensors(const GgufFile& file, const ModelConfig& config);

/// Maps the file without copying tensors. Throws Error if it is not a valid model.
[[nodiscard]] StoredModel read_gguf_model(const std::filesystem::path& path);

/// Writes the tensors, given in manifest order, atomically, with the configuration as_in_gguf(). Appends `tokenizer` to
/// the metadata. `file_type` is llama.cpp's number of a mixture (mixtures.h); by default that of the layers' first
/// matrix.
void write_gguf_model(const std::filesystem::path& path, const ModelConfig& config, TensorStream stream,
                      const std::string& model_name, const GgufMetadata& tokenizer,
                      std::optional<uint32_t> file_type = {});
void write_gguf_model(const std::filesystem::path& path, const Weights& weights, const std::string& model_name,
                      const GgufMetadata& tokenizer);

}  // namespace folio::core
