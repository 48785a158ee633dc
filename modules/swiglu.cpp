// Shapes: B sequences, T positions, D model width, F hidden width.
#include "modules/swiglu.h"

#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

SwiGLUImpl::SwiGLUImpl(int64_t dim, int64_t hidden_dim, const Linears& linears, const std::string& name, Gate gate)
    : dim_(dim), gate_(std::move(gate)), w1_(nullptr), w2_(nullptr), w3_(nullptr) {
  core::require(dim >= 1 && hidden_dim >= 1, "SwiGLU: dim is {} and hidden_dim is {}, expected both >= 1", dim,
                hidden_dim);
  w1_ = register_module("w1", linears.make(name + ".w1", dim, hidden_dim));
  w2_ = register_module("w2", linears.make(name + ".w2", hidden_dim, dim));
  w3_ = register_module("w3", linears.make(name + ".w3", dim, hidden_dim));
}

torch::Tensor SwiGLUImpl::hidden(const torch::Tensor& x_BTD) {
  require_BTD(x_BTD, dim_, "SwiGLU");
  return gate_(w1_->forward(x_BTD), w3_->forward(x_BTD));
}

}  // namespace folio::nn
