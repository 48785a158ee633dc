// Rotary position embedding: position p rotates pair i of each query and key, dimensions (2i, 2i+1), by an angle.
//
//     (a, b) -> (a cos α - b sin α, a sin α + b cos α),  α = p · theta^(-2i/d)         x [B, T, heads, d]
//
// Rotations preserve norms, and the dot product of two rotated vectors depends only on the distance of their positions.
//
//     nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
//     torch::Tensor q = rope->apply(q_BTHK);  // positions 0 .. T - 1
//
// Source: Su et al., "RoFormer", 2021, section 3.2.2, whose pairs are adjacent, as Llama's.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace folio::nn {

/// The rotations of every position of the context, in double precision. They are neither parameters nor buffers, and
/// all layers share them.
class RopeCacheImpl : public torch::nn::Module {
 public:
  /// Throws core::Error for an odd head_dim, and unless the lengths are at least 1 and theta is positive.
  RopeCacheImpl(int64_t context_length, int64_t head_dim, double theta = 10000.0);
  /// With given rotations, complex double [context_length, head_dim / 2]. Throws core::Error for another type or shape.
  explicit RopeCacheImpl(torch::Tensor rotations);

  /// Rotates x [B, T, heads, head_dim], whose positions are first_position .. first_position + T - 1. The result has
  /// x's shape and type. Throws core::Error for another shape, and for positions outside the context.
  [[nodiscard]] virtual torch::Tensor apply(const torch::Tensor& x, int64_t first_position = 0) const;
  /// cos(angle) + i sin(angle), complex double [context_length, head_dim / 2].
  [[nodiscard]] const torch::Tensor& rotations() const { return rotations_; }

  /// to() changes the device, never the type.
  void to(torch::Device device, bool non_blocking = false) override {
    rotations_ = rotations_.to(device, non_blocking);
  }
  using torch::nn::Module::to;

 private:
  torch::Tensor rotations_;
};
TORCH_MODULE(RopeCache);

}  // namespace folio::nn
