// Stores a tile's outputs, for groups_body.h, matmul_panels.h and matmul_packed.h. Included after an instruction set's
// vec_*.h.
#pragma once

#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Stores the outputs of n inputs for weight rows [row, row_end). total[t] has the outputs of input t: that of `row` in
// lane `lane`, that of row + 1 in the next lane, and so on.
inline void put_outputs(const Vec* total, size_t n, size_t lane, size_t row, size_t row_end, float* out,
                        size_t out_stride, bool accumulate) {
  for (size_t t = 0; t < n; ++t, out += out_stride) {
    if (row_end - row == kLanes) {
      (accumulate ? Vec::load(out + row) + total[t] : total[t]).store(out + row);
      continue;
    }
    float y[kLanes];
    total[t].store(y);
    for (size_t r = row; r < row_end; ++r) {
      const float value = y[lane + r - row];
      out[r] = accumulate ? out[r] + value : value;
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
