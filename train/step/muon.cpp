#include "train/step/muon.h"

#include <ATen/ops/_foreach_mul.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace folio::train {

torch::Tensor orthogonalized(const torch::Tensor& g) {
  // For x = U S Vᵀ, a x + b (x xᵀ) x + c (x xᵀ)² x maps each s in S to a s + b s³ + c s⁵ and keeps U and V.
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const torch::Tensor all = g.dim() == 2 ? g.unsqueeze(0) : g;
  const bool tall = all.size(1) > all.size(2);  // use the smaller of x xᵀ and xᵀ x
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

// Returns a parameter as a stack of matrices [k, n, m]: k experts, or one matrix.
torch::Tensor matrices_of(const torch::Tensor& p) { return p.dim() == 2 ? p.unsqueeze(0) : p; }

}  // namespace

Muon::Muon(const Parameters& parameters, const TrainConfig& config)
    : AdamW(parameters.filtered(/*matrices_of_blocks=*/false), config) {
  for (const auto& [name, p, cut_dim, ranks] : parameters.filtered(/*matrices_of_blocks=*/true).all) {
    const int64_t cut = ranks == nullptr ? -1 : cut_dim + 3 - p.dim();  // cut dimension of [matrices, n, m]
    const torch::Tensor matrices = matrices_of(p);
    auto stack = std::find_if(stacks_.begin(), stacks_.end(), [&](const Stack& s) {
      return s.cut_dim == cut && matrices_of(s.parameters.front()).sizes().slice(1) == matrices.sizes().slice(1);
    });
    if (stack == stacks_.end()) stack = stacks_.insert(stack, {.cut_dim = cut, .ranks = ranks});
    stack->names.push_back(name);
    stack->parameters.push_back(p);
    stack->counts.push_back(matrices.size(0));
  }
  std::vector<State> own;
  for (Stack& stack : stacks_) {
    std::vector<int64_t> sizes = matrices_of(stack.parameters.front()).sizes().vec();
    sizes[0] = std::accumulate(stack.counts.begin(), stack.counts.end(), int64_t{0});
    stack.momentum = torch::zeros(sizes, stack.parameters.front().options());
    const auto parts = stack.momentum.split_with_sizes(stack.counts);
    for (size_t i = 0; i < parts.size(); ++i)
      own.push_back({"momentum_buffer." + stack.names[i], parts[i].view_as(stack.parameters[i])});
  }
  state_.insert(state_.begin(), own.begin(), own.end());
}

void Muon::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  AdamW::step(lr, gradient_scale);
  for (Stack& stack : stacks_) {
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& w : stack.parameters) gradients.push_back(matrices_of(w.grad()));
    // The gradient's scale does not affect the size of an update, but it affects the gradient's weight in the momentum.
    if (gradient_scale != 1.0) at::_foreach_mul_(gradients, gradient_scale);
    const torch::Tensor g = torch::cat(gradients);
    stack.momentum.mul_(config_.momentum).add_(g);
    torch::Tensor ahead = g.add(stack.momentum, config_.momentum);
    if (config_.dtype == Precision::Bf16) ahead = ahead.to(torch::kBFloat16);
    if (stack.ranks != nullptr) ahead = stack.ranks->gather(ahead, stack.cut_dim);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(ahead.size(1), ahead.size(2))));
    torch::Tensor directions = orthogonalized(ahead);
    if (stack.ranks != nullptr) directions = directions.chunk(stack.ranks->size(), stack.cut_dim)[stack.ranks->index()];
    at::_foreach_mul_(stack.parameters, 1.0 - lr * config_.weight_decay);
    const auto parts = directions.split_with_sizes(stack.counts);
    for (size_t i = 0; i < parts.size(); ++i)
      stack.parameters[i].sub_(parts[i].view_as(stack.parameters[i]), lr * scale);
  }
}

}  // namespace folio::train
