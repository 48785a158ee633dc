// A model in a GGUF file: metadata keys, prefixed with the architecture, and tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/gguf.h"
#include "core/weights.h"

namespace folio::core {

/// Names of tensors that are not weights, but divisors of RoPE's frequencies.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr const char* kLongFactors = "rope_factors_long.weight";
inline constexpr const char* kShortFactors = "rope_factors_short.weight";

/// Returns the configuration of the model in a GGUF. Throws Error that names what is missing or not supported.
[[nodiscard]] ModelConfig config_from_gguf(const GgufFile& file);
[[nodiscard]] GgufMetadata config_to_gguf(const ModelConfig& config, const std::string& model_name);

/// Returns the configuration that a reader gets from a GGUF written with `config`. Mistral becomes llama. If the
/// architecture's GGUFs have no sliding window, the window is removed and the context length is limited to its size.
[[nodiscard]] ModelConfig as_in_gguf(ModelConfig config);

/// Describes in one line what is lost if this model is written as a GGUF. Returns "" if nothing is lost.
[[nodiscard]] std::string lost_in_gguf(const ModelConfig& config);

/// Returns `model`, without its MTP module (ModelConfig::n_tokens_ahead) if llama.cpp rejects that for the family.
[[nodiscard]] StoredModel for_llama_cpp(StoredModel model);

/// Returns the tensors of `config` as views, in manifest order. Throws Error if one is missing or has another shape, or
/// if the file has a tensor that doesn't belong to the model. Appends to `copies` the buffers of tensors that had to be
/// converted; they must outlive the views.
[[nodiscard]] std::vector<TensorView> manifest_tensors(const GgufFile& file, const ModelConfig& config,
                                                       std::vector<std::shared_ptr<const void>>& copies);

/// Maps the file without copying tensors. Throws Error if it is not a valid model.
[[nodiscard]] StoredModel read_gguf_model(const std::filesystem::path& path);

/// Writes a model atomically, with the configuration as_in_gguf(). The tensors must be in manifest order. Appends
/// `tokenizer` to the metadata. `file_type` is a value of llama.cpp's enum llama_ftype, for a mixture such as Q4_K_M;
/// by default, the value for the type of the layers' first matrix.
void write_gguf_model(const std::filesystem::path& path, const ModelConfig& config, TensorStream stream,
                      const std::string& model_name, const GgufMetadata& tokenizer,
                      std::optional<uint32_t> file_type = {});

}  // namespace folio::core
