// The engine's kernels with counters, to measure the work of a forward pass. Kernels are plain functions, so the
// counters are global: use them from one thread at a time.
#pragma once

#include <cstdint>

#include "infer/reference/kernels.h"

namespace folio::experiments {

/// Counts of multiply-adds, and of bytes that kernels read or write. Each operand of a call counts once.
struct Work {
  uint64_t matrix_multiply_adds = 0;
  uint64_t attention_multiply_adds = 0;
  uint64_t matrix_bytes = 0;
  uint64_t cache_bytes = 0;       ///< keys and values, read and written
  uint64_t activation_bytes = 0;  ///< other data: inputs, results, and the small weights of norms

  [[nodiscard]] uint64_t multiply_adds() const { return matrix_multiply_adds + attention_multiply_adds; }
  [[nodiscard]] uint64_t bytes() const { return matrix_bytes + cache_bytes + activation_bytes; }
};

/// Returns counting kernels for the CPU's best instruction set. They support only float32 weights and a float16 cache.
[[nodiscard]] const infer::kernels::Kernels& counting_kernels();

/// Returns the work since the last call and resets the counters.
[[nodiscard]] Work take_work();

}  // namespace folio::experiments
