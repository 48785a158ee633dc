// A model as a Hugging Face directory: config.json, and model.safetensors or several shards with an index.
// Only this file permutes rows of Wq and Wk, for families whose RoPE turns adjacent pairs: see rope_layout.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/weights.h"

namespace folio::core {

inline constexpr uint64_t kMaxShardBytes = uint64_t{5} << 30U;

/// The text of a config.json, and the configuration in such a file. `type` is the type of the matrices.
/// Throws Error that names what is missing or not supported.
[[nodiscard]] std::string config_to_hf_json(const ModelConfig& config, int64_t begin_of_text, int64_t end_of_text,
                                            DType type = DType::F32);
[[nodiscard]] ModelConfig config_from_hf_json(const std::filesystem::path& path);

/// Reads the directory's weights. All tensors but permuted ones are views. Throws Error if a tensor is missing, has
/// another shape or is not part of the model, or if the index does not match the shards.
[[nodiscard]] StoredModel read_hf_model(const std::filesystem::path& directory);

/// Writes config.json and the tensors, which are in the manifest's order and in F32, F16 or BF16. Larger models are
/// split into shards of at most `max_shard_bytes`, plus an index. A shard holds at least one tensor.
void write_hf_model(const std::filesystem::path& directory, const ModelConfig& config, const TensorStream& stream,
                    int64_t begin_of_text, int64_t end_of_text, uint64_t max_shard_bytes = kMaxShardBytes);

/// The same for F32 weights in memory, as in a checkpoint.
[[nodiscard]] Weights read_hf_directory(const std::filesystem::path& directory);
void write_hf_directory(const std::filesystem::path& directory, const Weights& weights, int64_t end_of_text);
/// One safetensors file with the tensors alone, under Hugging Face's names and in its order of rows: gradients, too.
void write_hf_tensors(const std::filesystem::path& file, const Weights& weights);

}  // namespace folio::core
