// Products of many inputs with weights that are floats, F16 or BF16 for AVX-512: those of matmul_panels.h, but with
// inputs that were packed. AVX2 gains nothing by that, and loses where the caches are others', too. Sixteen weight rows
// are first copied to a panel, in which a column of them lies side by side as floats. A Vec is then one column of the
// panel, a lane is a row, and the sums of several inputs stay in registers:
//
//     panel, chunk 0:   columns 0, 16, 32, ... | columns 1, 17, 33, ... |  ...  | columns 15, 31, 47, ...
//                       16 16 16 ...           | 16 16 16 ...           |       | 16 16 16 ...
//     inputs, chunk 0:  12 12 12 ...           | 12 12 12 ...           |       | 12 12 12 ...
//
// A part between two bars gives what is lane l of a pair's sums there: the products of the columns c ≡ l (mod 16). The
// sixteen parts are added as lanes are joined there, l + 8 to l, then l + 4, l + 2, l + 1. Inputs are packed in the
// same order, as many side by side as have sums, so that both are read from the first byte to the last.
#pragma once

#include <algorithm>
#include <vector>

#include "infer/cpu/prefetch.h"
#include "infer/cpu/put_outputs.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

struct alignas(64) PanelColumn {
  float rows[kLanes];
};

// The sums of a panel's rows and inputs that were packed together.
struct Totals {
  Vec of[Vec::kPackedInputs];
};

// Columns of a part, of a chunk with so many columns: packed inputs have room for them.
constexpr size_t part_columns(size_t columns) { return (columns + kLanes - 1) / kLanes; }

// A part of a panel has room for a column more than it needs: else all columns of a step would lie in the same set of
// the L1 cache.
constexpr size_t kPartColumns = part_columns(kChunk) + 1;
constexpr size_t kChunkColumns = kLanes * kPartColumns;

// See Kernels::pack.
inline void pack(const float* x, size_t n, size_t k, float* out) {
  constexpr size_t kInputs = Vec::kPackedInputs;
  for (size_t chunk = 0; chunk < k; chunk += kChunk) {
    const size_t columns = std::min(kChunk, k - chunk);
    for (size_t c = 0; c < columns; c += kLanes) {
      const size_t width = std::min(kLanes, columns - c);
      Vec rows[kLanes], of_columns[kLanes];
      for (size_t t = 0; t < kInputs; ++t) {  // past the end the last one again
        const float* from = x + std::min(t, n - 1) * k + chunk + c;
        rows[t] = width == kLanes ? Vec::load(from) : Vec::load_first(from, width);
      }
      for (size_t t = kInputs; t < kLanes; ++t) rows[t] = Vec::zero();
      Vec::transpose(rows, of_columns);
      float* to = out + (chunk + c / kLanes) * kInputs;
      for (size_t l = 0; l < width; ++l, to += part_columns(columns) * kInputs) of_columns[l].store_packed(to);
    }
  }
}

// A panel of a chunk's columns [first, first + columns) of the rows of a tile, row_end > row; rows past the end repeat
// the last one.
template <typename Weight>
void fill_panel(const Weight* weight, size_t k, size_t row, size_t row_end, size_t first, size_t columns,
                PanelColumn* panel) {
  const Weight* from[kLanes];
  for (size_t r = 0; r < kLanes; ++r) from[r] = weight + std::min(row + r, row_end - 1) * k + first;
  for (size_t c = 0; c < columns; c += kLanes) {
    const size_t n = std::min(kLanes, columns - c);
    Vec rows[kLanes], of_columns[kLanes];
    for (size_t r = 0; r < kLanes; ++r) {
      prefetch_line<Prefetch::L2>(from[r] + kLanes * k + c);  // of the next tile
      rows[r] = n == kLanes ? Vec::load(from[r] + c) : Vec::load_first(from[r] + c, n);
    }
    Vec::transpose(rows, of_columns);
    for (size_t l = 0; l < n; ++l) of_columns[l].store(panel[l * kPartColumns + c / kLanes].rows);
  }
}

// total[t]: plus a chunk of a panel times packed input t < kInputs. Parts are taken in an order in which those that are
// to be added meet: 0, 8, their sum; 4, 12, their sum, which is added to the one before; and so on.
template <size_t kInputs>
void add_panel(const PanelColumn* panel, const float* x, size_t columns, Vec* total) {
  constexpr size_t kOrder[kLanes] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
  Vec waiting[4][kInputs];  // for a sum of as many parts: 1, 2, 4, 8
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i) {
    const size_t l = kOrder[i];
    const PanelColumn* column = panel + l * kPartColumns;
    const float* in = x + l * part_columns(columns) * Vec::kPackedInputs;
    Vec sum[kInputs];
#pragma GCC unroll 16
    for (size_t t = 0; t < kInputs; ++t) sum[t] = Vec::zero();
    for (size_t c = l; c < columns; c += kLanes, ++column, in += Vec::kPackedInputs) {
      const Vec w = Vec::load(column->rows);
#pragma GCC unroll 16
      for (size_t t = 0; t < kInputs; ++t) sum[t] = Vec::fma(w, Vec::all(in[t]), sum[t]);
    }
    size_t level = 0;
    for (; (i >> level & 1U) == 1; ++level) {
#pragma GCC unroll 16
      for (size_t t = 0; t < kInputs; ++t) sum[t] = waiting[level][t] + sum[t];
    }
    if (level < 4) {
      std::copy_n(sum, kInputs, waiting[level]);
    } else {
      for (size_t t = 0; t < kInputs; ++t) total[t] = total[t] + sum[t];
    }
  }
}

// See Kernels::matmul_packed. Chunk after chunk: so much of the weights stays in the L2 cache, whatever k is.
template <typename Weight>
void matmul_packed(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end,
                   float* out, size_t out_stride, bool accumulate) {
  constexpr size_t kInputs = Vec::kPackedInputs;
  constexpr size_t kFew = kInputs / 3;
  constexpr size_t kL2Bytes = size_t{256} << 10U;
  constexpr size_t kMostPanels = 8;
  const size_t panels =
      std::clamp<size_t>(kL2Bytes / (std::clamp<size_t>(k, 1, kChunk) * sizeof(PanelColumn)), 1, kMostPanels);
  thread_local std::vector<PanelColumn> memory;
  thread_local std::vector<Totals> totals;  // of the chunks before, (groups of inputs, panels)
  memory.resize(std::max(memory.size(), panels * kChunkColumns));
  if (k > kChunk) totals.resize(std::max(totals.size(), (n_rows + kInputs - 1) / kInputs * panels));
  for (size_t block = row_begin; block < row_end; block += panels * kLanes) {
    const size_t block_end = std::min(row_end, block + panels * kLanes);
    for (size_t chunk = 0; chunk == 0 || chunk < k; chunk += kChunk) {
      const size_t columns = std::min(kChunk, k - chunk);
      PanelColumn* panel = memory.data();
      for (size_t row = block; row < block_end; row += kLanes, panel += kChunkColumns)
        fill_panel(weight, k, row, block_end, chunk, columns, panel);
      Totals* total = totals.data();
      for (size_t n = 0; n < n_rows; n += kInputs) {
        const size_t n_inputs = std::min(kInputs, n_rows - n);
        const auto run = n_inputs > kFew ? add_panel<kInputs> : add_panel<kFew>;
        const float* in = x + n * packed_columns(k) + chunk * kInputs;
        panel = memory.data();
        for (size_t row = block; row < block_end; row += kLanes, panel += kChunkColumns, ++total) {
          Totals now{};
          if (chunk > 0) now = *total;
          run(panel, in, columns, now.of);
          if (chunk + kChunk < k) {
            *total = now;
          } else {
            put_outputs(now.of, n_inputs, 0, row, std::min(block_end, row + kLanes), out + n * out_stride, out_stride,
                        accumulate);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
