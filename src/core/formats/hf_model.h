// A model as a Hugging Face directory: config.json, and model.safetensors or several shards with an index. Rows of Wq
// and Wk are permuted for families whose RoPE rotates adjacent pairs: see rope_layout.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/weights.h"

namespace folio::core {

inline constexpr uint64_t kMaxShardBytes = uint64_t{5} << 30U;

/// Returns the contents of config.json for token ids `begin_of_text` and `end_of_text` and matrices of `type`.
/// config_from_hf_json() parses such a file. Both throw Error that names a missing field or an unsupported feature.
[[nodiscard]] std::string config_to_hf_json(const ModelConfig& config, int64_t begin_of_text, int64_t end_of_text,
                                            DType type = DType::F32);
[[nodiscard]] ModelConfig config_from_hf_json(const std::filesystem::path& path);

/// Reads the weights as views of the mapped files, or as copies if the files store them differently: rows in another
/// order, one tensor per expert, packed (HfPacked), or norm weights minus 1. Throws Error if a tensor is missing, has
/// another shape or is unknown, or if the index does not match the shards. Sets n_tokens_ahead to 0 if the MTP module's
/// projection is missing, since transformers saves models without the module.
[[nodiscard]] StoredModel read_hf_model(const std::filesystem::path& directory);

/// Writes config.json and the tensors, given in manifest order as F32, F16 or BF16. Splits models above
/// `max_shard_bytes` into shards of at most that size, or of one larger tensor, with an index.
void write_hf_model(const std::filesystem::path& directory, const ModelConfig& config, const TensorStream& stream,
                    int64_t begin_of_text, int64_t end_of_text, uint64_t max_shard_bytes = kMaxShardBytes);

/// Writes tensors, such as gradients, to one safetensors file with Hugging Face's names and row order.
void write_hf_tensors(const std::filesystem::path& file, const Weights& weights);

}  // namespace folio::core
