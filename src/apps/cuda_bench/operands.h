// The operands of the kernels that are timed: random weights, inputs, and a cache with sequences in it.
#pragma once

#include <vector>

#include "core/model_config.h"
#include "core/tensor_view.h"
#include "apps/cuda_bench/timing.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu::bench {

/// Copies of a matrix (n_out, k), each with memory of its own.
class Matrices {
 public:
  Matrices(Stream& stream, core::DType type, size_t n_out, size_t k, size_t n_copies);
  [[nodiscard]] PackedMatrix operator[](size_t copy) const;
  /// Bytes of one, as they are stored on the device.
  [[nodiscard]] size_t bytes() const { return layout_.bytes(); }

 private:
  PackedMatrix layout_;
  DeviceMemory memory_;
};

/// Rows of random inputs, as they are and packed for weights of a kind.
struct Inputs {
  Inputs(Stream& stream, size_t n_rows, size_t k, Kind kind);
  DeviceMemory floats;
  DeviceMemory data;
  DeviceMemory scales;
  PackedInputs packed;
};

/// Sequences of `context` positions in a cache of one layer, whose last `n_rows` rows each attend: what attention()
/// gets from a step of the engine. Each copy has a cache of its own.
class Attending {
 public:
  Attending(Stream& stream, const core::ModelConfig& config, bool half, size_t n_sequences, size_t context,
            size_t n_rows, size_t shared_bytes, const Effort& effort);
  [[nodiscard]] size_t n_copies() const { return n_copies_; }
  [[nodiscard]] const Attention& of(size_t copy);
  /// Bytes that have to be read and written at least.
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
