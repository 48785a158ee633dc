// Shapes: B sequences, T positions, D model width, F hidden width.
#include "modules/swiglu.h"

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

SwiGLUImpl::SwiGLUImpl(int64_t dim, int64_t hidden_dim, core::Gate gate)
    : dim_(dim), gate_(gate), w1_(nullptr), w2_(nullptr), w3_(nullptr) {
  core::require(dim >= 1 && hidden_dim >= 1, "SwiGLU: dim and hidden_dim have to be at least 1, but are {} and {}", dim,
                hidden_dim);
  w1_ = register_module("w1", Linear(dim, hidden_dim));
  w2_ = register_module("w2", Linear(hidden_dim, dim));
  w3_ = register_module("w3", Linear(dim, hidden_dim));
}

torch::Tensor SwiGLUImpl::forward(const torch::Tensor& x_BTD) {
  require_BTD(x_BTD, dim_, "SwiGLU");
  const auto z_BTF = w1_->forward(x_BTD);
  const auto gate_BTF = gate_ == core::Gate::Silu ? torch::silu(z_BTF) : torch::gelu(z_BTF, "tanh");
  const auto up_BTF = w3_->forward(x_BTD);
  return w2_->forward(gate_BTF * up_BTF);
}

}  // namespace folio::nn
