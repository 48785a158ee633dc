#include "experiments/15_kv_cache/counting_kernels.h"

#include <algorithm>
#include <utility>

#include "core/isa.h"

namespace folio::experiments {
namespace {

using namespace infer::kernels;  // NOLINT: this file wraps the kernels

Work work;

const Kernels& plain() {
  static const Kernels& kernels = kernels_for(core::select_isa());
  return kernels;
}

void matmul(const float* x, size_t n_rows, const float* weight, size_t k, size_t row_begin, size_t row_end, float* out,
            size_t out_stride, bool accumulate) {
  const size_t n_out = row_end - row_begin;
  work.matrix_multiply_adds += n_rows * n_out * k;
  work.matrix_bytes += n_out * k * sizeof(float);
  work.activation_bytes += n_rows * (k + n_out) * sizeof(float);
  plain().matmul(x, n_rows, weight, k, row_begin, row_end, out, out_stride, accumulate);
}

void attention_f16(const AttentionInput<F16>& in, float* out) {
  for (size_t row = 0; row < in.n_rows; ++row) {
    const size_t seen = std::min(in.window, in.n_positions + row);
    work.attention_multiply_adds += in.n_queries * seen * 2 * in.head_dim;  // score and weighted sum
  }
  // The rows of a call are consecutive positions, so each cached position is counted once for all rows.
  const size_t positions = std::min(in.window, in.n_positions) + in.n_rows - 1;
  work.cache_bytes += positions * 2 * in.head_dim * sizeof(F16);
  work.activation_bytes += in.n_rows * in.n_queries * 2 * in.head_dim * sizeof(float);
  plain().attention(in, out);
}

// Counts the bytes of keys and values, which the engine converts with this kernel when it stores them in the cache.
void to_f16(const float* x, size_t n, F16* out) {
  work.cache_bytes += n * sizeof(F16);
  plain().to_f16(x, n, out);
}

void rms_norm(const float* x, const float* weight, float eps, size_t dim, float* out) {
  work.activation_bytes += 3 * dim * sizeof(float);
  plain().rms_norm(x, weight, eps, dim, out);
}

void rope(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim, core::RopePairs pairs) {
  work.activation_bytes += (2 * n_heads + 2) * head_dim * sizeof(float);
  plain().rope(x, cos, sin, n_heads, head_dim, pairs);
}

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  work.activation_bytes += 3 * n * sizeof(float);
  plain().swiglu(gate, up, n, out);
}

}  // namespace

const Kernels& counting_kernels() {
  static const Kernels table = [] {
    Kernels counted{};  // kernels without a counter stay null
    counted.isa = plain().isa;
    counted.rms_norm = rms_norm;
    counted.matmul = {{matmul}, {}, {}, {}};
    counted.rope = rope;
    counted.attention = {{}, {attention_f16}, {}};
    counted.to_f16 = to_f16;
    counted.swiglu = swiglu;
    return counted;
  }();
  return table;
}

Work take_work() { return std::exchange(work, {}); }

}  // namespace folio::experiments
