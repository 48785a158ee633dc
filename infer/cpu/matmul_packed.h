// Products with float, F16 or BF16 weights for many inputs on AVX-512: like matmul_panels.h, but with inputs packed in
// groups of twelve, so that a group's column spans one or two cache lines. With AVX2, packing gains nothing, and is
// slower if cores share caches.
#pragma once

#include <algorithm>
#include <vector>

#include "infer/cpu/panel.h"
#include "infer/cpu/put_outputs.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Products of a panel's sixteen rows and each of the inputs that are packed together.
struct Totals {
  Vec of[Vec::kPackedInputs];
};

// Order in which a panel's parts are summed (part l: columns c ≡ l mod 16), so that the operands of each addition are
// adjacent: (0 + 8) + (4 + 12), and so on. Packed inputs store every sixteen columns in this order.
constexpr size_t kPartOrder[kLanes] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

// Implements Kernels::pack: transposes n <= kInputs inputs x (n, k). Every sixteen columns are in kPartOrder.
inline void pack(const float* x, size_t n, size_t k, float* out) {
  constexpr size_t kInputs = Vec::kPackedInputs;
  for (size_t chunk = 0; chunk < k; chunk += kChunk) {
    const size_t columns = std::min(kChunk, k - chunk);
    for (size_t c = 0; c < columns; c += kLanes) {
      const size_t width = std::min(kLanes, columns - c);
      Vec rows[kLanes], of_columns[kLanes];
      for (size_t t = 0; t < kInputs; ++t) {  // missing inputs are copies of the last one
        const float* from = x + std::min(t, n - 1) * k + chunk + c;
        rows[t] = width == kLanes ? Vec::load(from) : Vec::load_first(from, width);
      }
      for (size_t t = kInputs; t < kLanes; ++t) rows[t] = Vec::zero();
      Vec::transpose(rows, of_columns);
      float* to = out + (chunk + c) * kInputs;
      for (size_t i = 0; i < kLanes; ++i, to += kInputs) {
        if (i + 1 < kLanes) {  // storing the next column overwrites lanes past kInputs
          of_columns[kPartOrder[i]].store(to);
        } else {
          of_columns[kPartOrder[i]].store_first(to, kInputs);
        }
      }
    }
  }
}

// Adds the product of a panel's chunk and packed input t to total[t]. Prefetches inputs `ahead` elements ahead.
template <size_t kInputs, Prefetch of_next>
void add_panel(const PanelColumn* panel, const float* x, size_t columns, size_t ahead, Vec* total) {
  Vec waiting[4][kInputs];  // waiting[i]: sums over 2^i parts, until the sums over the next 2^i parts are added
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i) {
    const size_t l = kPartOrder[i];
    const PanelColumn* column = panel + l * kPartColumns;
    const float* in = x + i * Vec::kPackedInputs;
    Vec sum[kInputs];
#pragma GCC unroll 16
    for (size_t t = 0; t < kInputs; ++t) sum[t] = Vec::zero();
    for (size_t c = l; c < columns; c += kLanes, ++column, in += kLanes * Vec::kPackedInputs) {
      const Vec w = Vec::load(column->rows);
      prefetch_line<of_next>(in + ahead);
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

// Implements Kernels::matmul_packed. Multiplies all inputs by one chunk of k at a time, so that its weights fit in L2.
template <typename Weight>
void matmul_packed(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end,
                   float* out, size_t out_stride, bool accumulate) {
  constexpr size_t kInputs = Vec::kPackedInputs;
  constexpr size_t kFew = kInputs / 3;
  constexpr size_t kL2Bytes = size_t{256} << 10U;
  constexpr size_t kNearBytes = size_t{768} << 10U;  // larger inputs don't stay in the L2 cache
  constexpr size_t kMostPanels = 8;
  const size_t panels =
      std::clamp<size_t>(kL2Bytes / (std::clamp<size_t>(k, 1, kChunk) * sizeof(PanelColumn)), 1, kMostPanels);
  thread_local std::vector<PanelColumn> memory;
  thread_local std::vector<Totals> totals;  // (groups of inputs, panels): sums of the previous chunks
  memory.resize(std::max(memory.size(), panels * kChunkColumns));
  if (k > kChunk) totals.resize(std::max(totals.size(), (n_rows + kInputs - 1) / kInputs * panels));
  for (size_t block = row_begin; block < row_end; block += panels * kLanes) {
    const size_t block_end = std::min(row_end, block + panels * kLanes);
    for (size_t chunk = 0; chunk == 0 || chunk < k; chunk += kChunk) {
      const size_t columns = std::min(kChunk, k - chunk);
      const bool far = n_rows * columns * sizeof(float) > kNearBytes;
      const auto run_all = far ? add_panel<kInputs, Prefetch::L2> : add_panel<kInputs, Prefetch::None>;
      PanelColumn* panel = memory.data();
      for (size_t row = block; row < block_end; row += kLanes, panel += kChunkColumns)
        fill_panel(weight, k, row, block_end, chunk, columns, panel);
      Totals* total = totals.data();
      for (size_t n = 0; n < n_rows; n += kInputs) {
        const size_t n_inputs = std::min(kInputs, n_rows - n);
        const auto run = n_inputs > kFew ? run_all : add_panel<kFew, Prefetch::None>;
        const float* in = x + n * in_lanes(k) + chunk * kInputs;
        panel = memory.data();
        for (size_t row = block; row < block_end; row += kLanes, panel += kChunkColumns, ++total) {
          Totals now;
          for (size_t t = 0; t < kInputs; ++t) now.of[t] = chunk > 0 ? total->of[t] : Vec::zero();
          for (size_t t = 0; t < n_inputs; ++t) prefetch_to_write(out + (n + t) * out_stride + row);
          run(panel, in, columns, kInputs * in_lanes(k), now.of);
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
