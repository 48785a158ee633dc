// Products with float, F16 or BF16 weights for many inputs, with the same summation order as in matmul_body.h. Weight
// rows are copied to panels, and the sums for several inputs and a panel's sixteen rows stay in registers.
#pragma once

#include <algorithm>
#include <vector>

#include "infer/cpu/panel.h"
#include "infer/cpu/put_outputs.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Computes sums[t], the product of input t and the columns c ≡ l (mod kStep) of a panel's chunk.
template <size_t kInputs, size_t kStep>
inline void sum_parts(const PanelColumn* panel, const float* const* x, size_t columns, size_t l, Vec* sums) {
  if constexpr (kStep < kLanes) {
    Vec others[kInputs];
    sum_parts<kInputs, 2 * kStep>(panel, x, columns, l, sums);
    sum_parts<kInputs, 2 * kStep>(panel, x, columns, l + kStep, others);
    for (size_t t = 0; t < kInputs; ++t) sums[t] = sums[t] + others[t];
  } else {
    Vec sum[kInputs];
    for (Vec& s : sum) s = Vec::zero();
    const PanelColumn* column = panel + l * kPartColumns;
    for (size_t c = l; c < columns; c += kLanes, ++column) {
      const Vec w = Vec::load(column->rows);
      for (size_t t = 0; t < kInputs; ++t) sum[t] = Vec::fma(w, Vec::all(x[t][c]), sum[t]);
    }
    std::copy_n(sum, kInputs, sums);
  }
}

// Computes total[t], the panel times input x[t].
template <size_t kInputs>
void panel_tile(const PanelColumn* panel, const float* const* x, size_t k, Vec* total) {
  for (size_t t = 0; t < kInputs; ++t) total[t] = Vec::zero();
  for (size_t chunk = 0; chunk < k; chunk += kChunk, panel += kChunkColumns) {
    const float* in[kInputs];
    for (size_t t = 0; t < kInputs; ++t) in[t] = x[t] + chunk;
    Vec sums[kInputs];
    sum_parts<kInputs, 1>(panel, in, std::min(kChunk, k - chunk), 0, sums);
    for (size_t t = 0; t < kInputs; ++t) total[t] = total[t] + sums[t];
  }
}

// Implements Kernels::matmul for many inputs, bit-identical to matmul_tiles. Partial tiles repeat the last input.
template <typename Weight>
void matmul_panels(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end,
                   float* out, size_t out_stride, bool accumulate) {
  constexpr size_t kInputs = Vec::kPanelInputs;
  constexpr size_t kL2Bytes = size_t{256} << 10U;
  constexpr size_t kMostPanels = 8;
  const size_t panel_columns = (k + kChunk - 1) / kChunk * kChunkColumns;
  const size_t panels = std::clamp<size_t>(kL2Bytes / (std::max<size_t>(k, 1) * sizeof(PanelColumn)), 1, kMostPanels);
  thread_local std::vector<PanelColumn> memory;
  if (memory.size() < panels * panel_columns) memory.resize(panels * panel_columns);
  for (size_t block = row_begin; block < row_end; block += panels * kLanes) {
    const size_t block_end = std::min(row_end, block + panels * kLanes);
    const auto panel_of = [&](size_t row) { return memory.data() + (row - block) / kLanes * panel_columns; };
    for (size_t row = block; row < block_end; row += kLanes) {
      PanelColumn* panel = panel_of(row);
      for (size_t chunk = 0; chunk < k; chunk += kChunk, panel += kChunkColumns)
        fill_panel(weight, k, row, block_end, chunk, std::min(kChunk, k - chunk), panel);
    }
    for (size_t n = 0; n < n_rows; n += kInputs) {
      const float* in[kInputs];
      for (size_t t = 0; t < kInputs; ++t) in[t] = x + std::min(n + t, n_rows - 1) * k;
      for (size_t row = block; row < block_end; row += kLanes) {
        Vec total[kInputs];
        panel_tile<kInputs>(panel_of(row), in, k, total);
        put_outputs(total, std::min(kInputs, n_rows - n), 0, row, std::min(block_end, row + kLanes),
                    out + n * out_stride, out_stride, accumulate);
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
