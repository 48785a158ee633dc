// Rotary position embedding: position p turns pair i of each query and key by the angle p · theta^(-2i/d). The pairs
// are (2i, 2i+1), or in some families (i, i + d/2). Rotations preserve norms, and the dot product of two rotated
// vectors depends only on the distance of their positions. The rotations are stored in double precision. They are
// neither parameters nor buffers, and all layers share them.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "core/families.h"

namespace folio::nn {

/// The rotations of every position of the context.
/// Source: Su et al., "RoFormer", 2021, section 3.2.2, whose pairs are adjacent, as Llama's. Halves: GPT-NeoX, Qwen.
class RopeCacheImpl : public torch::nn::Module {
 public:
  /// `context_length` positions, heads of `head_dim` numbers. `factors`, one for each pair or none at all, divide the
  /// frequencies (core::rope_factors), and `magnitude` multiplies what is rotated (core::rope_magnitude). Throws
  /// core::Error for an odd head_dim, another number of factors, and unless the lengths are at least 1 and theta is
  /// positive.
  RopeCacheImpl(int64_t context_length, int64_t head_dim, double theta = 10000.0,
                const std::vector<double>& factors = {}, core::RopePairs pairs = core::RopePairs::Adjacent,
                double magnitude = 1.0);

  /// With given rotations, complex double [context_length, head_dim / 2], for experiments. Throws core::Error for
  /// another type or shape.
  explicit RopeCacheImpl(torch::Tensor rotations);

  /// Rotates x [B, T, heads, head_dim], whose positions are first_position .. first_position + T - 1. The result has
  /// x's shape and type. Throws core::Error for another shape, and for positions outside the context.
  [[nodiscard]] torch::Tensor apply(const torch::Tensor& x, int64_t first_position = 0) const;

  /// cos(angle) + i sin(angle), complex double [context_length, head_dim / 2].
  [[nodiscard]] const torch::Tensor& rotations() const { return rotations_; }

  /// Moves the rotations to a device, when a model that contains them is moved. They stay complex double.
  void to(torch::Device device, bool non_blocking = false) override;
  using torch::nn::Module::to;

 private:
  torch::Tensor rotations_;
  core::RopePairs pairs_ = core::RopePairs::Adjacent;
};
TORCH_MODULE(RopeCache);

}  // namespace folio::nn
