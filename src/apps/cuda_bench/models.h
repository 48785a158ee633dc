// The shapes that are measured, and models of such a shape with random weights, without a file.
#pragma once

#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "core/weights.h"

namespace folio::infer::gpu::bench {

/// Names: "8b" (Llama 3), "1.1b" (TinyLlama), "tiny". Throws core::UsageError for others.
[[nodiscard]] core::ModelConfig shape(const std::string& name, int64_t context_length);

/// "f32", "f16", "bf16", "q8_0", "q4_0". Throws core::UsageError for others.
[[nodiscard]] core::DType type_of(const std::string& name);

/// n numbers, uniform in [-scale, scale), as tensors of this type store them.
[[nodiscard]] std::vector<std::byte> random_numbers(core::DType type, size_t n, double scale, uint64_t seed,
                                                    core::ThreadPool& pool);

/// Matrices of this type that keep the size of what they multiply; norms are 1. All layers share the bytes of one. With
/// Q4_0 the embedding and the output are Q8_0, as export writes them.
[[nodiscard]] core::StoredModel random_model(const core::ModelConfig& config, core::DType type, core::ThreadPool& pool);

/// Bytes of the weights that a token reads, as a file stores them: all but the embedding, unless it is the output, too.
[[nodiscard]] uint64_t bytes_of_token(const core::StoredModel& model);
/// Bytes of keys and values of one position, over all layers.
[[nodiscard]] uint64_t bytes_of_position(const core::ModelConfig& config, bool half);
/// Operations of the products of one row in the layers, and of one row of logits.
[[nodiscard]] double operations_of_row(const core::ModelConfig& config);
[[nodiscard]] double operations_of_logits(const core::ModelConfig& config);

}  // namespace folio::infer::gpu::bench
