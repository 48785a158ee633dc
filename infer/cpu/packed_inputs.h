// The inputs of a product, packed as Kernels::matmul_packed takes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

/// One or two threads pack all inputs, each for itself: packing takes some 2 % of a prompt's time on two threads, and
/// as much or more goes into waiting for the lines of a common buffer that the other core has read last: up to 8 % on a
/// machine where one core's lines reach the other slowly (BENCHMARKS.md). More threads share the packing.
class PackedInputs {
 public:
  PackedInputs(core::ThreadPool& pool, const kernels::Kernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// Of the next product: x (n_rows, k), which stay as they are until it has ended.
  void begin(const float* x, size_t n_rows, size_t k);

  /// For the thread that calls, any of the pool's: valid until the next begin().
  [[nodiscard]] const float* of_thread() const;

 private:
  [[nodiscard]] bool each_for_itself() const { return pool_.size() <= 2; }
  [[nodiscard]] size_t n_groups() const { return (n_rows_ + kernels_.packed_inputs - 1) / kernels_.packed_inputs; }
  [[nodiscard]] size_t room() const { return n_groups() * kernels_.packed_inputs * kernels::in_lanes(k_); }
  void pack(size_t first, size_t last, float* out) const;

  core::ThreadPool& pool_;
  const kernels::Kernels& kernels_;
  core::AlignedVector<float> shared_;
  const float* x_ = nullptr;
  size_t n_rows_ = 0;
  size_t k_ = 0;
  uint64_t number_ = 0;  ///< of the product: no other of the process has it
};

}  // namespace folio::infer
