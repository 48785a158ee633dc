// The engine's kernels with a counter before each: what the forward pass asks for is counted as it is asked for.
// A kernel is a plain function, so the counter is one for the program: for one thread at a time.
#pragma once

#include <cstdint>

#include "infer/reference/kernels.h"

namespace folio::experiments {

/// Multiply-adds (a product that is added to a sum), and bytes that a kernel reads or writes: each operand of a call
/// once.
struct Work {
  uint64_t matrix_multiply_adds = 0;
  uint64_t attention_multiply_adds = 0;
  uint64_t matrix_bytes = 0;
  uint64_t cache_bytes = 0;       ///< keys and values, read and written
  uint64_t activation_bytes = 0;  ///< everything else: inputs, results, and the small weights of norms

  [[nodiscard]] uint64_t multiply_adds() const { return matrix_multiply_adds + attention_multiply_adds; }
  [[nodiscard]] uint64_t bytes() const { return matrix_bytes + cache_bytes + activation_bytes; }
};

/// The kernels of this machine's best instruction set, for float weights and a cache of 16-bit numbers.
[[nodiscard]] const infer::kernels::Kernels& counting_kernels();

/// What they did since the last call of this function.
[[nodiscard]] Work take_work();

}  // namespace folio::experiments
