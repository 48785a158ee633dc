// Panels of sixteen weight rows as floats, for matmul_panels.h and matmul_packed.h. A panel's column is a Vec whose
// lanes are the rows. Included after an instruction set's vec_*.h.
#pragma once

#include <algorithm>

#include "infer/cpu/prefetch.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

struct alignas(64) PanelColumn {
  float rows[kLanes];
};

// Number of columns of a part. A chunk's columns are stored in the order in which they are added, in sixteen parts:
//
//     chunk 0:   columns 0, 16, 32, ... | columns 1, 17, 33, ... |  ...  | columns 15, 31, 47, ...
//
// Part l sums the columns c ≡ l (mod 16), as lane l does in matmul_body.h. Parts are added like lanes: l + 8 to l, then
// l + 4, l + 2, l + 1. Without the extra column, the columns that are read together would share a set of the L1 cache.
constexpr size_t kPartColumns = kChunk / kLanes + 1;
constexpr size_t kChunkColumns = kLanes * kPartColumns;

// Fills one chunk of a panel with columns [first, first + columns) of sixteen weight rows, from `row` on. Rows past
// row_end repeat the last one.
template <typename Weight>
void fill_panel(const Weight* weight, size_t k, size_t row, size_t row_end, size_t first, size_t columns,
                PanelColumn* panel) {
  const Weight* from[kLanes];
  for (size_t r = 0; r < kLanes; ++r) from[r] = weight + std::min(row + r, row_end - 1) * k + first;
  for (size_t c = 0; c < columns; c += kLanes) {
    const size_t n = std::min(kLanes, columns - c);
    Vec rows[kLanes], of_columns[kLanes];
    for (size_t r = 0; r < kLanes; ++r) {
      prefetch_line<Prefetch::L2>(from[r] + kLanes * k + c);  // the same row of the next tile
      rows[r] = n == kLanes ? Vec::load(from[r] + c) : Vec::load_first(from[r] + c, n);
    }
    Vec::transpose(rows, of_columns);
    for (size_t l = 0; l < n; ++l) of_columns[l].store(panel[l * kPartColumns + c / kLanes].rows);
  }
}

}  // namespace
}  // namespace folio::infer::kernels
