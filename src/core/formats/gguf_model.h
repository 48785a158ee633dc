// A model in a GGUF file: the metadata keys of its configuration, which begin with its architecture, and its tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/gguf.h"
#include "core/weights.h"

namespace folio::core {

/// A tensor that is no weight: what divides RoPE's frequencies.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr const char* kLongFactors = "rope_factors_long.weight";
inline constexpr const char* kShortFactors = "rope_factors_short.weight";

/// The configuration in a GGUF. Throws Error that names what is missing or not supported.
[[nodiscard]] ModelConfig config_from_gguf(const GgufFile& file);
[[nodiscard]] GgufMetadata config_to_gguf(const ModelConfig& config, const std::string& model_name);

/// The configuration that a GGUF of this model says. Where its architecture has no sliding window there, one that is
/// shorter than the context becomes the context. Mistral is called llama.
[[nodiscard]] ModelConfig as_in_gguf(ModelConfig config);

/// What a GGUF of this model loses, as a line for people; empty if nothing.
[[nodiscard]] std::string lost_in_gguf(const ModelConfig& config);

/// Returns the tensors of `config` as views in the manifest's order. Throws Error if one is missing or has another
/// shape, or if the file has others.
[[nodiscard]] std::vector<TensorView> manifest_tensors(const GgufFile& file, const ModelConfig& config);

/// Maps the file without copying anything. Throws Error if it is not a valid model.
[[nodiscard]] StoredModel read_gguf_model(const std::filesystem::path& path);

/// Writes the tensors, which are in the manifest's order, atomically, with the configuration as_in_gguf(). `tokenizer`
/// is appended to the metadata. `file_type` is llama.cpp's number of a mixture (mixtures.h); without one, it is that of
/// the first matrix of the layers.
void write_gguf_model(const std::filesystem::path& path, const ModelConfig& config, TensorStream stream,
                      const std::string& model_name, const GgufMetadata& tokenizer,
                      std::optional<uint32_t> file_type = {});
void write_gguf_model(const std::filesystem::path& path, const Weights& weights, const std::string& model_name,
                      const GgufMetadata& tokenizer);

}  // namespace folio::core
