#include "modules/linear.h"

#include <cmath>
#include <utility>

#include "core/error.h"

namespace folio::nn {

LinearImpl::LinearImpl(int64_t in, int64_t out, bool bias)
    : torch::nn::LinearImpl(torch::nn::LinearOptions(in, out).bias(bias)) {}

torch::Tensor LinearImpl::forward(const torch::Tensor& x) {
  torch::Tensor y = frozen_ ? multiply(x, frozen_) : torch::nn::LinearImpl::forward(x);
  if (frozen_ && bias.defined()) y = y + bias;
  if (!low_rank_.a.defined()) return y;
  const auto dropped = torch::dropout(x, low_rank_.dropout, is_training());
  return y + torch::linear(torch::linear(dropped, low_rank_.a), low_rank_.b) * low_rank_.scale;
}

void LinearImpl::freeze(std::shared_ptr<const FrozenMatrix> matrix) {
  core::require(matrix->rows() == options.out_features() && matrix->columns() == options.in_features(),
                "the frozen matrix is [{}, {}], but has to be [{}, {}]", matrix->rows(), matrix->columns(),
                options.out_features(), options.in_features());
  frozen_ = std::move(matrix);
  parameters_.erase("weight");
  weight = torch::Tensor();
  if (bias.defined()) bias.set_requires_grad(false);
}

void LinearImpl::adapt(int64_t rank, double scale, double dropout) {
  const int64_t in = options.in_features();
  const auto a = torch::empty({rank, in});
  const double most = 1.0 / std::sqrt(static_cast<double>(in));
  {
    const torch::NoGradGuard no_grad;
    a.uniform_(-most, most);
  }
  low_rank_ = {.a = register_parameter("lora_a", a),
               .b = register_parameter("lora_b", torch::zeros({options.out_features(), rank})),
               .scale = scale,
               .dropout = dropout};
}

void freeze(torch::nn::Module& module, const std::string& prefix, const FrozenWeights& weights) {
  const torch::NoGradGuard no_grad;
  for (auto& part : module.named_modules(prefix)) {
    if (auto* linear = part.value()->as<Linear>()) linear->freeze(weights.matrix(part.key() + ".weight"));
    for (auto& parameter : part.value()->named_parameters(/*recurse=*/false)) {
      parameter->copy_(weights.vector(part.key() + "." + parameter.key()));
      parameter->set_requires_grad(false);
    }
  }
}

}  // namespace folio::nn
