// Products of BF16 by AMX: one instruction multiplies 32 columns of sixteen weight rows, as they lie in the
// matrix, with those of sixteen inputs. Included after fast_bf16.h.
#pragma once

#include "infer/cpu/amx_shapes.h"
#include "infer/cpu/fast_bf16.h"

namespace folio::infer::kernels {
namespace {

void matmul_fast_amx(const BF16* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                     float* out, size_t out_stride, bool accumulate) {
  const size_t whole = row_begin + (row_end - row_begin) / kFastInputs * kFastInputs;
  {
    const TileShapes shapes(32, sizeof(BF16));
    for (size_t row = row_begin; row < whole; row += kFastInputs) {
      for (size_t first = 0; first < n_rows; first += kFastInputs) {
        alignas(64) float sums[kFastInputs][kFastInputs];  // (rows, inputs)
        _tile_zero(0);
        for (size_t i = 0; i < k; i += 32) {
          _tile_loadd(1, weight + row * k + i, k * sizeof(BF16));
          _tile_loadd(2, x + first * k + i * kFastInputs, 64);
          _tile_dpbf16ps(0, 1, 2);
        }
        _tile_stored(0, sums, 64);
        for (size_t t = 0; t < std::min(kFastInputs, n_rows - first); ++t) {
          float* to = out + (first + t) * out_stride + row;
          for (size_t r = 0; r < kFastInputs; ++r) to[r] = (accumulate ? to[r] : 0.0F) + sums[r][t];
        }
      }
    }
  }
  matmul_fast(x, n_rows, weight, k, whole, row_end, out, out_stride, accumulate);  // the last rows
}

}  // namespace
}  // namespace folio::infer::kernels
