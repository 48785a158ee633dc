// A Llama as a Hugging Face directory: config.json, and model.safetensors or its shards with their index.
// The rows of Wq and Wk are permuted between the two RoPE conventions here and nowhere else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/weights.h"

namespace folio::core {

inline constexpr uint64_t kMaxShardBytes = uint64_t{5} << 30U;

/// config.json of a Hugging Face Llama, as text, and its inverse. `type` is that of the matrices.
/// Throws Error that names what is missing or not supported.
[[nodiscard]] std::string config_to_hf_json(const ModelConfig& config, int64_t begin_of_text, int64_t end_of_text,
                                            DType type = DType::F32);
[[nodiscard]] ModelConfig config_from_hf_json(const std::filesystem::path& path);

/// Reads the directory's weights; all but Wq and Wk are views. Throws Error if a tensor is missing, misshapen or not
/// part of a Llama, or if an index does not fit its shards.
[[nodiscard]] StoredModel read_hf_model(const std::filesystem::path& directory);

/// Writes config.json and the tensors, which are in the manifest's order and in F32, F16 or BF16. More than
/// `max_shard_bytes` of them go into shards of at most so many, a tensor at least, and an index.
void write_hf_model(const std::filesystem::path& directory, const ModelConfig& config, const TensorStream& stream,
                    int64_t begin_of_text, int64_t end_of_text, uint64_t max_shard_bytes = kMaxShardBytes);

/// The same with F32 weights in memory: what a checkpoint holds.
[[nodiscard]] Weights read_hf_directory(const std::filesystem::path& directory);
void write_hf_directory(const std::filesystem::path& directory, const Weights& weights, int64_t end_of_text);

}  // namespace folio::core
