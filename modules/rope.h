// Rotary position embedding: in each query and key at position p, dimensions (2i, 2i+1) are rotated by an angle α.
//
//     (a, b) -> (a cos α - b sin α, a sin α + b cos α),  α = p · theta^(-2i/d)         x [B, T, heads, d]
//
// Rotations preserve norms, and the dot product of two rotated vectors depends only on the distance between positions.
//
//     nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
//     torch::Tensor q = rope->apply(q_BTHK);  // positions 0 .. T - 1
//
// Source: Su et al., "RoFormer", 2021, section 3.2.2. As there and in Meta's Llama, pairs are adjacent dimensions.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace folio::nn {

/// The rotations of all positions in the context, in double precision. All layers share one cache, which is neither a
/// parameter nor a buffer.
class RopeCacheImpl : public torch::nn::Module {
 public:
  /// Throws core::Error unless head_dim is even and at least 2, context_length is at least 1 and theta is positive.
  RopeCacheImpl(int64_t context_length, int64_t head_dim, double theta = 10000.0);
  /// Uses given rotations, complex double [context_length, head_dim / 2]. Throws core::Error for another type or shape.
  explicit RopeCacheImpl(torch::Tensor rotations);

  /// Rotates x [B, T, heads, head_dim] at positions first_position .. first_position + T - 1. The result has the shape
  /// and type of x. Throws core::Error for another shape or for positions outside the context.
  [[nodiscard]] virtual torch::Tensor apply(const torch::Tensor& x, int64_t first_position = 0) const;
  /// Returns cos α + i sin α for each position and pair, complex double [context_length, head_dim / 2].
  [[nodiscard]] const torch::Tensor& rotations() const { return rotations_; }

  /// Moves the rotations to a device. They stay in double precision when the model is converted to another type.
  void to(torch::Device device, bool non_blocking = false) override {
    rotations_ = rotations_.to(device, non_blocking);
  }
  using torch::nn::Module::to;

 private:
  torch::Tensor rotations_;
};
TORCH_MODULE(RopeCache);

}  // namespace folio::nn
