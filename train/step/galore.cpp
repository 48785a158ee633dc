#include "train/step/galore.h"

#include <ATen/ops/linalg_svd.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

namespace folio::train {

GaLore::GaLore(const Parameters& parameters, const TrainConfig& config)
    : AdamW(parameters.filtered(/*matrices_of_blocks=*/false), config) {
  std::vector<State> own;
  for (const auto& [name, w, cut_dim, ranks] : parameters.filtered(/*matrices_of_blocks=*/true).all) {
    const int64_t n = w.size(0), m = w.size(1), rank = std::min({config.rank, n, m});
    const torch::Tensor rows = w.new_zeros({n, rank}), columns = w.new_zeros({rank, m});
    const torch::Tensor &p = n >= m ? columns : rows, &moments = n >= m ? rows : columns;  // p is the smaller one
    subspaces_.push_back({.matrix = w, .projection = p, .first = moments, .second = moments.clone()});
    own.push_back({"ortho_matrix." + name, p});
    own.push_back({"exp_avg." + name, subspaces_.back().first});
    own.push_back({"exp_avg_sq." + name, subspaces_.back().second});
  }
  state_.insert(state_.begin(), own.begin(), own.end());
}

void GaLore::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  const bool new_subspace = steps_ % config_.galore_every == 0;
  AdamW::step(lr, gradient_scale);
  const double t = static_cast<double>(steps_), beta1 = config_.beta1, beta2 = config_.beta2;
  const double corrected_lr = lr * std::sqrt(1.0 - std::pow(beta2, t)) / (1.0 - std::pow(beta1, t));
  // Update one matrix at a time, so that temporary memory is limited to that of one matrix.
  for (const auto& [w, p, first, second] : subspaces_) {
    const torch::Tensor& g = w.grad();
    if (gradient_scale != 1.0) g.mul_(gradient_scale);
    const bool rows = w.size(0) >= w.size(1);  // project the rows, or else the columns
    if (new_subspace) {                        // singular vectors come sorted, the largest value first
      const auto [u, s, vt] = at::linalg_svd(g, /*full_matrices=*/false);
      p.copy_(rows ? vt.narrow(0, 0, p.size(0)) : u.narrow(1, 0, p.size(1)));
    }
    const torch::Tensor low = rows ? g.mm(p.t()) : p.t().mm(g);
    first.mul_(beta1).add_(low, 1.0 - beta1);
    second.mul_(beta2).addcmul_(low, low, 1.0 - beta2);
    const torch::Tensor update = first / second.sqrt().add_(config_.adam_eps);
    w.addmm_(rows ? update : p, rows ? p : update, /*beta=*/1.0, /*alpha=*/-corrected_lr * config_.galore_scale);
    w.mul_(1.0 - lr * config_.weight_decay);
  }
}

}  // namespace folio::train
