// Buffer for inputs rounded to BF16 for Kernels::matmul_fast. Never shrinks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/thread_pool.h"
#include "infer/cpu/cpu.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

class RoundedBuffer {
 public:
  /// Rounds n inputs of k columns on all threads; row_of(i) returns input i. Returns (n, panel_columns(k)), valid until
  /// the next call.
  template <typename RowOf>
  const kernels::BF16* round(core::ThreadPool& pool, const kernels::Kernels& kernels, size_t n, size_t k,
                             RowOf&& row_of) {
    const size_t columns = kernels::panel_columns(k);
    rows_.resize(std::max(rows_.size(), n * columns));
    pool.parallel_for(n, 1, n * k / kWorthAThread, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) kernels.to_fast(row_of(i), k, &rows_[i * columns]);
    });
    return rows_.data();
  }

 private:
  std::vector<kernels::BF16> rows_;
};

}  // namespace folio::infer
