// Operands of the timed kernels: random weights and inputs, and a KV cache with sequences.
#pragma once

#include "apps/cuda_bench/timing.h"
#include "core/model_config.h"
#include "core/tensor_view.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu::bench {

/// `n_copies` equal matrices of shape (n_out, k), at different addresses in device memory.
class Matrices {
 public:
  Matrices(Stream& stream, core::DType type, size_t n_out, size_t k, size_t n_copies);
  [[nodiscard]] PackedMatrix operator[](size_t copy) const;
  /// Returns the bytes of one copy on the device.
  [[nodiscard]] size_t bytes() const { return layout_.bytes(); }

 private:
  PackedMatrix layout_;
  DeviceMemory memory_;
};

/// Random inputs of shape (n_rows, k), as floats and packed for products with weights of `kind`.
struct Inputs {
  Inputs(Stream& stream, size_t n_rows, size_t k, Kind kind);
  DeviceMemory floats;
  DeviceMemory data;
  DeviceMemory scales;
  PackedInputs packed;
};

/// Operands of attention() as in a step: `n_sequences` sequences of `context` positions in a one-layer KV cache (F16 if
/// `half`, else F32), and queries of each sequence's last `n_rows` positions. Each copy has its own cache.
class Attending {
 public:
  Attending(Stream& stream, const core::ModelConfig& config, bool half, size_t n_sequences, size_t context,
            size_t n_rows, size_t shared_bytes, const Effort& effort);
  [[nodiscard]] size_t n_copies() const { return n_copies_; }
  [[nodiscard]] const Attention& of(size_t copy);
  /// Returns the minimum number of bytes that attention reads and writes for one copy.
  [[nodiscard]] double bytes() const { return bytes_; }
  [[nodiscard]] double operations() const { return operations_; }

 private:
  Attention attention_;
  size_t copy_bytes_ = 0;
  size_t n_copies_ = 1;
  double bytes_ = 0.0;
  double operations_ = 0.0;
  DeviceMemory cache_;
  DeviceMemory positions_;
  DeviceMemory tables_;
  DeviceMemory blocks_;
  DeviceMemory items_;
  DeviceMemory query_;
  DeviceMemory out_;
  DeviceMemory partials_;
  DeviceMemory counters_;
};

}  // namespace folio::infer::gpu::bench
