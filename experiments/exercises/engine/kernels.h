// Declares the functions that the reader writes in the engine exercises, each in its own file in this folder.
// Arrays are row-major: (n, dim) means n rows of dim elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "experiments/exercises/unfilled.h"

namespace folio::exercises {

void rms_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out);

void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta);

void swiglu(const float* gate, const float* up, size_t n, float* out);

void matmul(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out);

struct AttentionShape {
  size_t n_queries;    ///< number of queries; query r is at position n_positions - n_queries + r
  size_t n_positions;  ///< number of cached positions
  size_t n_heads;      ///< query heads
  size_t n_kv_heads;   ///< key/value heads, a divisor of n_heads
  size_t head_dim;     ///< elements per head
};

void attention(const float* q, const float* k, const float* v, const AttentionShape& shape, float* out);

struct SamplerOptions {
  float temperature;  ///< divides the logits; 0: always the most likely token
  size_t top_k;       ///< number of most likely tokens to keep; 0: all
  float top_p;        ///< keep the most likely tokens until their probabilities sum to top_p; 1: keep all
  float min_p;        ///< keep tokens at least min_p times as likely as the most likely one; 0: keep all
};

int32_t sample(std::span<const float> logits, const SamplerOptions& options, double uniform);

}  // namespace folio::exercises
