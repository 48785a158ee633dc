#include "train/step/muon.h"

#include <ATen/ops/_foreach_mul.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/parallel/group.h"

namespace folio::train {

torch::Tensor orthogonalized(const torch::Tensor& g) {
  // x a + (x xᵀ) x b + (x xᵀ)² x c does a s + b s³ + c s⁵ to each singular value s, and leaves U and V as they are.
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const torch::Tensor all = g.dim() == 2 ? g.unsqueeze(0) : g;
  const bool tall = all.size(1) > all.size(2);  // the smaller of x xᵀ and xᵀ x does
  torch::Tensor x = (tall ? all.mT() : all) / (all.norm(2, {1, 2}, /*keepdim=*/true) + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const torch::Tensor square = x.bmm(x.mT());
    const torch::Tensor factor = torch::baddbmm(square, square, square, /*beta=*/b, /*alpha=*/c);
    x = torch::baddbmm(x, factor, x, /*beta=*/a);
  }
  x = tall ? x.mT() : x;
  return g.dim() == 2 ? x.squeeze(0) : x;
}

namespace {

// A parameter as matrices [k, n, m]: one, or one for each expert.
torch::Tensor matrices_of(const torch::Tensor& p) { return p.dim() == 2 ? p.unsqueeze(0) : p; }

torch::Tensor all_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& p : parameters) all.push_back(matrices_of(p));
  return torch::cat(all);
}

}  // namespace

Muon::Muon(const Parameters& parameters, const TrainConfig& config)
    : MatrixOptimizer(parameters, config),
      momentum_(config.momentum),
      weight_decay_(config.weight_decay),
      bf16_(config.dtype == Precision::Bf16) {
  for (const auto& [name, p, cut_dim, ranks] : matrices_) {
    const int64_t cut = ranks == nullptr ? -1 : cut_dim + 3 - p.dim();  // of [matrices, n, m]
    auto stack = std::find_if(stacks_.begin(), stacks_.end(), [&, &w = p](const Stack& s) {
      return s.cut_dim == cut && matrices_of(s.parameters.front()).sizes().slice(1) == matrices_of(w).sizes().slice(1);
    });
    if (stack == stacks_.end()) stack = stacks_.insert(stack, {.cut_dim = cut, .ranks = ranks});
    stack->names.push_back(name);
    stack->parameters.push_back(p);
  }
  const torch::NoGradGuard no_grad;
  for (Stack& stack : stacks_) stack.momentum = torch::zeros_like(all_of(stack.parameters));
}

std::vector<Optimizer::State> Muon::state_of_matrices() const {
  std::vector<State> all;
  for (const Stack& stack : stacks_) {
    int64_t first = 0;
    for (size_t i = 0; i < stack.names.size(); ++i) {
      const torch::Tensor& p = stack.parameters[i];
      const int64_t n = matrices_of(p).size(0);
      all.push_back({"momentum_buffer." + stack.names[i],
                     stack.momentum.narrow(0, std::exchange(first, first + n), n).view(p.sizes())});
    }
  }
  return all;
}

void Muon::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  others_.step(lr, gradient_scale);
  for (Stack& stack : stacks_) {
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& w : stack.parameters) gradients.push_back(w.grad());
    // A step's size depends on no scale, but the gradient's share in the momentum does.
    if (gradient_scale != 1.0) at::_foreach_mul_(gradients, gradient_scale);
    const torch::Tensor g = all_of(gradients);
    stack.momentum.mul_(momentum_).add_(g);
    torch::Tensor ahead = g.add(stack.momentum, momentum_);
    if (bf16_) ahead = ahead.to(torch::kBFloat16);
    if (stack.ranks != nullptr) ahead = stack.ranks->gather(ahead, stack.cut_dim);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(ahead.size(1), ahead.size(2))));
    torch::Tensor directions = orthogonalized(ahead);
    if (stack.ranks != nullptr) directions = directions.chunk(stack.ranks->size(), stack.cut_dim)[stack.ranks->index()];
    at::_foreach_mul_(stack.parameters, 1.0 - lr * weight_decay_);
    int64_t first = 0;
    for (torch::Tensor& p : stack.parameters) {
      const int64_t n = matrices_of(p).size(0);
      p.sub_(directions.narrow(0, std::exchange(first, first + n), n).view(p.sizes()), lr * scale);
    }
  }
}

}  // namespace folio::train
