// The engine's reference kernels (infer/reference) with the signatures of the exercises.
#pragma once

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises::reference {

void rms_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out);
void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta);
void swiglu(const float* gate, const float* up, size_t n, float* out);
void matmul(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out);
void attention(const float* q, const float* k, const float* v, const AttentionShape& shape, float* out);

}  // namespace folio::exercises::reference
