// Sixteen weight rows side by side as floats, for matmul_panels.h and matmul_packed.h: a column of them is a Vec, whose
// lanes are the rows. The columns of a chunk lie in the order in which they are added:
//
//     chunk 0:   columns 0, 16, 32, ... | columns 1, 17, 33, ... |  ...  | columns 15, 31, 47, ...
//                16 16 16 ...           | 16 16 16 ...           |       | 16 16 16 ...
//
// A part between two bars gives what is lane l of a pair's sums in matmul_body.h: the products of the columns c ≡ l
// (mod 16). The sixteen parts are added as lanes are joined there, l + 8 to l, then l + 4, l + 2, l + 1. Included after
// an instruction set's vec_*.h.
#pragma once

#include <algorithm>

#include "infer/cpu/prefetch.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

struct alignas(64) PanelColumn {
  float rows[kLanes];
};

// A part has room for a column more than it needs: else all columns of a step would lie in the same set of the L1
// cache.
constexpr size_t kPartColumns = kChunk / kLanes + 1;
constexpr size_t kChunkColumns = kLanes * kPartColumns;

// The columns [first, first + columns) of the rows of a tile, row_end > row, of one chunk; rows past the end repeat the
// last one.
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

}  // namespace
}  // namespace folio::infer::kernels
