// Inputs of a product, packed for Kernels::matmul_packed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

/// Packs a product's inputs. With one or two threads, each packs all inputs into its own buffer, because reading them
/// from another core's cache may take longer (docs/performance-cpu.md). More threads divide the work and fill one
/// buffer.
class PackedInputs {
 public:
  PackedInputs(core::ThreadPool& pool, const kernels::Kernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// Starts a product with inputs x (n_rows, k). x must not change until the product's last of_thread().
  void begin(const float* x, size_t n_rows, size_t k);

  /// Returns the packed inputs. Must be called in a thread of the pool. Valid until the next begin().
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
  uint64_t number_ = 0;  ///< identifies the product; unique in the process
};

}  // namespace folio::infer
