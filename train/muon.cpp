#include "train/muon.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

namespace folio::train {
namespace {

// The embedding and the output have a row for each token, and most tokens are rare: to let all directions count alike
// is meant for what stands between them.
bool is_matrix_of_block(const std::string& name, const torch::Tensor& parameter) {
  return parameter.dim() == 2 && name.starts_with("layers.");
}

}  // namespace

torch::Tensor orthogonalized(const torch::Tensor& g) {
  // x a + (x xᵀ) x b + (x xᵀ)² x c does a s + b s³ + c s⁵ to each singular value s, and leaves U and V as they are.
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = g.size(0) > g.size(1);  // the smaller of x xᵀ and xᵀ x does
  torch::Tensor x = (tall ? g.t() : g) / (g.norm() + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const torch::Tensor square = x.matmul(x.t());
    x = a * x + (b * square + c * square.matmul(square)).matmul(x);
  }
  return tall ? x.t() : x;
}

Muon::Muon(const torch::nn::Module& model, const TrainConfig& config)
    : momentum_(config.momentum),
      weight_decay_(config.weight_decay),
      others_(model, config,
              [](const std::string& name, const torch::Tensor& p) { return !is_matrix_of_block(name, p); }),
      parameters_(others_.parameters()) {
  for (const auto& parameter : model.named_parameters()) {
    const torch::Tensor& p = parameter.value();
    if (!p.requires_grad() || !is_matrix_of_block(parameter.key(), p)) continue;
    matrices_.push_back({.name = parameter.key(), .parameter = p, .momentum = torch::zeros_like(p)});
    parameters_.push_back(p);
  }
}

std::vector<Optimizer::State> Muon::state() const {
  std::vector<State> all;
  for (const Matrix& matrix : matrices_) all.push_back({"momentum_buffer." + matrix.name, matrix.momentum});
  for (State& state : others_.state()) all.push_back(std::move(state));
  return all;
}

void Muon::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  others_.step(lr, gradient_scale);
  for (Matrix& matrix : matrices_) {
    torch::Tensor& w = matrix.parameter;
    torch::Tensor& g = w.mutable_grad();
    // A step's size depends on no scale, but the gradient's share in the momentum does.
    if (gradient_scale != 1.0) g.mul_(gradient_scale);
    matrix.momentum.mul_(momentum_).add_(g);
    const torch::Tensor ahead = g + momentum_ * matrix.momentum;
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(w.size(0), w.size(1))));
    w.mul_(1.0 - lr * weight_decay_);
    w.sub_(orthogonalized(ahead), lr * scale);
  }
}

}  // namespace folio::train
