// The scalar kernels, one operation per file. They define the results that the fast kernels must reproduce.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "core/float16.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels::reference {

/// Returns the sum of the sixteen lanes of a chunk: lane l adds lane l + 8, then l + 4, l + 2 and l + 1.
inline float join_lanes(std::array<float, kLanes> lane) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0];
}

/// Returns x as a float, which is exact.
inline float widened(float x) { return x; }
inline float widened(F16 x) { return core::f16_to_float(x.bits); }
inline float widened(BF16 x) { return core::bf16_to_float(x.bits); }
inline float widened(Q8 x) { return static_cast<float>(x.quant); }

/// Returns x, or zero with the sign of x if x is subnormal.
[[nodiscard]] float flushed(float x);

/// Returns sum + a.of[1] b.of[1] + a.of[0] b.of[0], added in this order as vdpbf16ps does: see Kernels::matmul_fast.
[[nodiscard]] float add_pair(BF16Pair a, BF16Pair b, float sum);

/// Returns e^x to about 2 units in the last place, with x clamped to [-87.33, 88.37] (Cephes' expf: range reduction by
/// ln 2 in two parts, then a polynomial of degree 5). The vector kernels perform the same steps.
[[nodiscard]] float exp(float x);

/// Return a quant of a grouped matrix, or the scale or minimum of a group. `group` is the group's index in the row.
[[nodiscard]] int32_t quant(const GroupMatrix& m, size_t row, size_t column);
[[nodiscard]] float scale(const GroupMatrix& m, size_t row, size_t group);
[[nodiscard]] float minimum(const GroupMatrix& m, size_t row, size_t group);

/// Returns Σ_i a_i b[i * stride] over i < k, summed in the order that kernels.h defines.
template <typename Weight>
[[nodiscard]] float dot(const float* a, const Weight* b, size_t k, size_t stride = 1) {
  float total = 0.0F;
  for (size_t chunk = 0; chunk < k; chunk += kChunk) {
    std::array<float, kLanes> lane{};
    for (size_t i = chunk; i < std::min(k, chunk + kChunk); ++i) {
      lane[i % kLanes] = std::fma(a[i], widened(b[i * stride]), lane[i % kLanes]);
    }
    total += join_lanes(lane);
  }
  return total;
}

void rms_norm(const float* x, const float* weight, float eps, size_t dim, float* out);
template <typename Weight>
void matmul(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end, float* out,
            size_t out_stride, bool accumulate);
void quantize(const float* x, size_t n, size_t k, const QuantizedInputs& out);
void to_fast(const float* x, size_t k, BF16* out);
void matmul_fast(const BF16* x, size_t n_rows, const PanelMatrix& weight, size_t k, size_t row_begin, size_t row_end,
                 float* out, size_t out_stride, bool accumulate);
void matmul_groups(const QuantizedInputs& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin, size_t row_end,
                   float* out, size_t out_stride, bool accumulate);
void rope(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim, core::RopePairs pairs);
template <typename T>
void attention(const AttentionInput<T>& in, float* out);
void to_f16(const float* x, size_t n, F16* out);
void to_q8(const float* x, size_t n, Q8* quants, F16* scales);
void swiglu(const float* gate, const float* up, size_t n, float* out);
void geglu(const float* gate, const float* up, size_t n, float* out);
void clamped_swiglu(const float* gate, const float* up, size_t n, float* out);
void soft_cap(float* x, size_t n, float cap);
template <typename Weight>
void add_low_rank(const float* t, size_t rank, const Weight* b, size_t n, float* out);

}  // namespace folio::infer::kernels::reference
