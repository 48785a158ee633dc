// matmul_fast with AMX. One tdpbf16ps multiplies 32 columns of sixteen inputs by a panel of sixteen weight rows. Four
// independent panels, with sums in tile registers 0, 3, 6 and 7, hide its latency. Included after fast_bf16.h.
#pragma once

#include "infer/cpu/amx_shapes.h"
#include "infer/cpu/fast_bf16.h"

namespace folio::infer::kernels {
namespace {

void matmul_fast_amx(const BF16* x, size_t n_rows, const PanelMatrix& weight, size_t k, size_t row_begin,
                     size_t row_end, float* out, size_t out_stride, bool accumulate) {
  constexpr size_t kInputs = 16;
  constexpr size_t kPanels = 4;
  const size_t columns = panel_columns(k);
  const size_t last_panel = (row_end - 1) / kLanes * kLanes;
  const TileShapes shapes(32, sizeof(BF16));
  alignas(64) static thread_local BF16 few[kInputs * 32];
  alignas(64) float sums[kPanels][kInputs][kLanes];
  for (size_t row = row_begin; row < row_end; row += kPanels * kLanes) {
    const BF16* panel[kPanels];
    for (size_t p = 0; p < kPanels; ++p) {
      panel[p] = weight.panels + in_panels(k, std::min(row + p * kLanes, last_panel), 0);
    }
    for (size_t first = 0; first < n_rows; first += kInputs) {
      const size_t n = std::min(kInputs, n_rows - first);
      _tile_zero(0);
      _tile_zero(3);
      _tile_zero(6);
      _tile_zero(7);
      for (size_t i = 0; i < columns; i += 32) {
        const BF16* in = x + first * columns + i;
        if (n == kInputs) {
          _tile_loadd(1, in, columns * sizeof(BF16));
        } else {
          for (size_t t = 0; t < n; ++t) std::memcpy(few + t * 32, in + t * columns, 64);
          _tile_loadd(1, few, 64);
        }
        _tile_loadd(2, panel[0] + i * kLanes, 64);
        _tile_dpbf16ps(0, 1, 2);
        _tile_loadd(2, panel[1] + i * kLanes, 64);
        _tile_dpbf16ps(3, 1, 2);
        _tile_loadd(2, panel[2] + i * kLanes, 64);
        _tile_dpbf16ps(6, 1, 2);
        _tile_loadd(2, panel[3] + i * kLanes, 64);
        _tile_dpbf16ps(7, 1, 2);
      }
      _tile_stored(0, sums[0], 64);
      _tile_stored(3, sums[1], 64);
      _tile_stored(6, sums[2], 64);
      _tile_stored(7, sums[3], 64);
      for (size_t p = 0; p < kPanels && row + p * kLanes < row_end; ++p) {
        const size_t to = row + p * kLanes;
        Vec totals[kInputs];
        for (size_t t = 0; t < n; ++t) totals[t] = Vec::load(sums[p][t]);
        put_outputs(totals, n, 0, to, std::min(row_end, to + kLanes), out + first * out_stride, out_stride, accumulate);
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
