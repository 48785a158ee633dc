// The feed-forward network of Llama: the up-projection (w3) is multiplied elementwise by a gate (w1), then projected
// down (w2). No biases.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "core/families.h"
#include "modules/linear.h"

namespace folio::nn {

/// silu(z) ⊙ up, or gelu(z) ⊙ up, as tanh approximates it; or z sigmoid(1.702 z) ⊙ (up + 1), once z is at most 7 and up
/// within [-7, 7] (gpt-oss, 2025). The shapes are equal.
[[nodiscard]] torch::Tensor gated(core::Gate gate, const torch::Tensor& z, const torch::Tensor& up);

/// y = w2 (silu(w1 x) ⊙ w3 x), with silu(z) = z / (1 + e^-z); or with gated() of another gate in place of
/// silu: with gelu GeGLU. Source: Shazeer, "GLU Variants Improve Transformer", 2020, equation 6.
class SwiGLUImpl : public torch::nn::Module {
 public:
  /// w1, w3 [hidden_dim, dim] and w2 [dim, hidden_dim]. Throws core::Error unless both are at least 1.
  SwiGLUImpl(int64_t dim, int64_t hidden_dim, core::Gate gate = core::Gate::Silu);

  /// x [B, T, dim] to [B, T, dim]. Throws core::Error for another shape.
  torch::Tensor forward(const torch::Tensor& x);

 private:
  int64_t dim_;
  core::Gate gate_;
  Linear w1_, w2_, w3_;
};
TORCH_MODULE(SwiGLU);

}  // namespace folio::nn
