// Runs the engine's matrix product on operands in device memory, to compare it with the lesson's own kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "experiments/33_cuda/tiles.h"
#include "infer/cuda/kernels.h"

namespace folio::experiments {

/// The inputs and the weight matrix of a product, packed as the engine's kernel requires.
class EngineProduct {
 public:
  /// Packs weights `numbers` (weight.n_out, weight.k) of kind weight.kind and inputs x (n_rows, k) into device memory.
  /// `scales` (n_out, k / 32) are F16, one for each group of 32 weights; empty for a kind without groups.
  template <typename T>
  EngineProduct(infer::gpu::Stream& stream, const infer::gpu::PackedMatrix& weight, const std::vector<T>& numbers,
                const std::vector<uint16_t>& scales, const float* x, uint32_t n_rows)
      : weight_(weight) {
    using namespace infer::gpu;  // NOLINT: names of layout.h
    std::vector<uint8_t> packed = in_tiles(weight, numbers);
    for (size_t i = 0; i < scales.size(); ++i) {
      const size_t row = i * kGroup / weight.k;
      const size_t column = i * kGroup % weight.k;
      std::memcpy(packed.data() + weight.block_offset(row / kTileRows, column / kBlockK) + weight.number_block_bytes() +
                      weight.scale_index(row % kTileRows, column % kBlockK) * 2,
                  &scales[i], 2);
    }
    weights_ = on_device(stream, packed);
    weight_.data = weights_.as<uint8_t>();
    inputs_ = {.n_rows = n_rows, .k = weight.k, .kind = weight.kind};
    input_bytes_ = on_device(stream, std::vector<uint8_t>(inputs_.bytes()));
    row_scales_ = on_device(stream, std::vector<float>(n_rows, 1.0F));
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
