// The functions that the engine's exercises ask for, in the order of the exercises. Each is written in a file of its
// own beside this one. Arrays lie row by row: (n, dim) is n times dim numbers, one row after the other.
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
  size_t n_queries;    ///< positions that ask: the last ones
  size_t n_positions;  ///< positions that have keys and values: all so far
  size_t n_heads;      ///< heads of the queries
  size_t n_kv_heads;   ///< heads of the keys and values, a divisor of n_heads
  size_t head_dim;     ///< numbers in a head
};

void attention(const float* q, const float* k, const float* v, const AttentionShape& shape, float* out);

struct SamplerOptions {
  float temperature;  ///< 0: take the likeliest
  size_t top_k;       ///< 0: off
  float top_p;        ///< 1: off
  float min_p;        ///< 0: off
};

int32_t sample(std::span<const float> logits, const SamplerOptions& options, double uniform);

}  // namespace folio::exercises
