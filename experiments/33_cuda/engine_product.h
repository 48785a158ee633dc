// Runs the engine's product, which the last row of a step's table measures, on operands in device memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "infer/cuda/kernels.h"

namespace folio::experiments {

template <typename T>
[[nodiscard]] infer::gpu::DeviceMemory copied(infer::gpu::Stream& stream, const std::vector<T>& values) {
  infer::gpu::DeviceMemory memory(stream, values.size() * sizeof(T));
  stream.copy_in(memory.as<T>(), values.data(), memory.bytes());
  stream.wait();
  return memory;
}

/// The inputs and the weight matrix of a product, packed as the engine's kernel requires.
class EngineProduct {
 public:
  /// Packs the weights `numbers` (weight.n_out, weight.k), of weight.kind's type, with F16 scales (n_out, k / 32) if
  /// that type has groups, and x (n_rows, k), floats in device memory.
  template <typename T>
  EngineProduct(infer::gpu::Stream& stream, const infer::gpu::PackedMatrix& weight, const std::vector<T>& numbers,
                const std::vector<uint16_t>& scales, const float* x, uint32_t n_rows)
      : weight_(weight) {
    using namespace infer::gpu;  // NOLINT: names of layout.h
    std::vector<uint8_t> packed(weight.bytes());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t row = i / weight.k;
      const size_t column = i % weight.k;
      const size_t r = row % kTileRows;
      const size_t c = column % kBlockK;
      uint8_t* block = packed.data() + weight.block_offset(row / kTileRows, column / kBlockK);
      std::memcpy(block + weight.number_offset(r, c), &numbers[i], sizeof(T));
      if (weight.kind != Kind::Groups || column % kGroup != 0) continue;
      std::memcpy(block + weight.number_block_bytes() + weight.scale_index(r, c) * 2, &scales[i / kGroup], 2);
    }
    weights_ = copied(stream, packed);
    weight_.data = weights_.as<uint8_t>();
    inputs_ = {.n_rows = n_rows, .k = weight.k, .kind = weight.kind};
    input_bytes_ = copied(stream, std::vector<uint8_t>(inputs_.bytes()));
    row_scales_ = copied(stream, std::vector<float>(n_rows, 1.0F));
    inputs_.data = input_bytes_.as<uint8_t>();
    inputs_.row_scales = row_scales_.as<float>();
    pack_inputs(stream, x, inputs_);
    stream.wait();
  }

  /// Computes out (n_rows, n_out) = x · weightᵀ.
  void run(infer::gpu::Stream& stream, float* out) const {
    const infer::gpu::Matmul product{.weight = weight_, .out = out};
    multiply(stream, inputs_, &product, 1);
  }

 private:
  infer::gpu::PackedMatrix weight_;
  infer::gpu::PackedInputs inputs_;
  infer::gpu::DeviceMemory weights_;
  infer::gpu::DeviceMemory input_bytes_;
  infer::gpu::DeviceMemory row_scales_;
};

}  // namespace folio::experiments
