// Llama's feed-forward network: the up-projection (w3) is multiplied elementwise by a gate (w1), then projected down
// (w2). It has no biases.
//
//     y = w2 (silu(w1 x) ⊙ w3 x),  silu(z) = z / (1 + e^-z)
//     x, y [B, T, dim], w1, w3 [hidden_dim, dim], w2 [dim, hidden_dim]
//
//     nn::SwiGLU ffn(config.dim, config.hidden_dim);
//     torch::Tensor y = ffn->forward(x);
//
// Source: Shazeer, "GLU Variants Improve Transformer", 2020, equation 6.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <string>

#include "modules/linear.h"

namespace folio::nn {

class SwiGLUImpl : public torch::nn::Module {
 public:
  using Gate = std::function<torch::Tensor(const torch::Tensor& z, const torch::Tensor& up)>;
  static torch::Tensor silu_gate(const torch::Tensor& z, const torch::Tensor& up) { return torch::silu(z) * up; }

  /// `linears` creates w1, w2, w3 of the module `name` of the model. Throws core::Error unless both sizes are >= 1.
  SwiGLUImpl(int64_t dim, int64_t hidden_dim, const Linears& linears = Linears(), const std::string& name = "ffn",
             Gate gate = silu_gate);

  /// Maps x [B, T, dim] to [B, T, dim]. Throws core::Error for another shape.
  torch::Tensor forward(const torch::Tensor& x) { return w2_->forward(hidden(x)); }
  [[nodiscard]] const Gate& gate() const { return gate_; }
  /// Returns gate(w1 x, w3 x), [B, T, hidden_dim], the input of w2.
  torch::Tensor hidden(const torch::Tensor& x);

 private:
  int64_t dim_;
  Gate gate_;
  Linear w1_, w2_, w3_;
};
TORCH_MODULE(SwiGLU);

}  // namespace folio::nn
