// The tiles of fast_bf16.h by AMX: one instruction multiplies 32 columns of sixteen weight rows, as they lie in the
// matrix, with those of sixteen inputs. Included after fast_bf16.h.
#pragma once

#include "infer/cpu/amx_shapes.h"
#include "infer/cpu/fast_bf16.h"

namespace folio::infer::kernels {
namespace {

void matmul_fast_amx(const BF16* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                     float* out, size_t out_stride, bool accumulate) {
  const TileShapes shapes(32, sizeof(BF16));
  const auto tile = [](const BF16* inputs, const BF16* const* rows, size_t columns, float* sums) {
    if (rows[kFastInputs - 1] != rows[0] + (kFastInputs - 1) * columns) {  // the last rows, fewer than sixteen
      fast_tile(inputs, rows, columns, sums);
      return;
    }
    _tile_zero(0);
    for (size_t i = 0; i < columns; i += 32) {
      _tile_loadd(1, rows[0] + i, columns * sizeof(BF16));
      _tile_loadd(2, inputs + i * kFastInputs, 64);
      _tile_dpbf16ps(0, 1, 2);
    }
    _tile_stored(0, sums, 64);
  };
  fast_tiles(x, n_rows, weight, k, row_begin, row_end, out, out_stride, accumulate, tile);
}

}  // namespace
}  // namespace folio::infer::kernels
