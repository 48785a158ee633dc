// Shapes: B sequences, T positions, D model width, F hidden width.
#include "modules/swiglu.h"

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

torch::Tensor gated(core::Gate gate, const torch::Tensor& z, const torch::Tensor& up) {
  if (gate == core::Gate::Silu) return torch::silu(z) * up;
  if (gate == core::Gate::Gelu) return torch::gelu(z, "tanh") * up;
  const double limit = core::kGateLimit;
  const auto most = z.clamp_max(limit);
  return most * torch::sigmoid(static_cast<double>(core::kGateSlope) * most) * (up.clamp(-limit, limit) + 1);
}

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
  return w2_->forward(gated(gate_, w1_->forward(x_BTD), w3_->forward(x_BTD)));
}

}  // namespace folio::nn
