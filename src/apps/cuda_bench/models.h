// Model shapes (dimensions) for measurements, and models of these shapes with random weights, built in memory.
#pragma once

#include <string>

#include "core/thread_pool.h"
#include "core/weights.h"

namespace folio::infer::gpu::bench {

/// Returns the configuration of "8b" (Llama 3), "1.1b" (TinyLlama) or "tiny". Throws core::UsageError for other names.
[[nodiscard]] core::ModelConfig shape(const std::string& name, int64_t context_length);

/// Returns the type "f32", "f16", "bf16", "q8_0" or "q4_0". Throws core::UsageError for other names.
[[nodiscard]] core::DType type_of(const std::string& name);

/// Returns a model with norm weights of 1 and random matrices of `type`, scaled to preserve the activations' magnitude.
/// All layers share one layer's bytes. For Q4_0 the embedding and the output are Q8_0, as export writes them.
[[nodiscard]] core::StoredModel random_model(const core::ModelConfig& config, core::DType type, core::ThreadPool& pool);

/// Returns the bytes of weights read to decode a token, as stored in a file: all except an untied embedding.
[[nodiscard]] uint64_t bytes_of_token(const core::StoredModel& model);
/// Returns the bytes of one position's keys and values in all layers, in F16 if `half`, otherwise in F32.
[[nodiscard]] uint64_t bytes_of_position(const core::ModelConfig& config, bool half);
/// Returns the floating-point operations of all layers' matrix products for one row (token).
[[nodiscard]] double operations_of_row(const core::ModelConfig& config);
/// Returns the floating-point operations of computing one row of logits.
[[nodiscard]] double operations_of_logits(const core::ModelConfig& config);

}  // namespace folio::infer::gpu::bench
