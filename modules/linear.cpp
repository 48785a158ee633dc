#include "modules/linear.h"

#include <torch/nn/functional/linear.h>
#include <torch/nn/init.h>

#include <cmath>

namespace folio::nn {

LinearImpl::LinearImpl(int64_t in, int64_t out, bool with_bias) : in_(in), out_(out) {
  weight = register_parameter("weight", torch::empty({out, in}));
  if (with_bias) bias = register_parameter("bias", torch::empty({out}));
  reset_parameters();
}

torch::Tensor LinearImpl::forward(const torch::Tensor& x) { return torch::nn::functional::linear(x, weight, bias); }

void LinearImpl::reset_parameters() {
  torch::nn::init::kaiming_uniform_(weight, std::sqrt(5));
  const double most = 1.0 / std::sqrt(static_cast<double>(in_));
  if (bias.defined()) torch::nn::init::uniform_(bias, -most, most);
}

EmbeddingImpl::EmbeddingImpl(int64_t vocab_size, int64_t dim)
    : weight(register_parameter("weight", torch::empty({vocab_size, dim}))) {
  reset_parameters();
}

void EmbeddingImpl::reset_parameters() { torch::nn::init::normal_(weight); }

}  // namespace folio::nn
