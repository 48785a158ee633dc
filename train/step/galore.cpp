#include "train/step/galore.h"

#include <ATen/ops/linalg_svd.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace folio::train {
namespace {

// Rows are projected, or columns, whichever are shorter: so P is the smaller matrix.
bool projects_rows(const torch::Tensor& matrix) { return matrix.size(0) >= matrix.size(1); }

// The `rank` largest singular vectors of g: of its rows [rank, m], or of its columns [n, rank].
torch::Tensor largest_singular_vectors(const torch::Tensor& g, int64_t rank) {
  const auto [u, s, vt] = at::linalg_svd(g, /*full_matrices=*/false);
  return projects_rows(g) ? vt.narrow(0, 0, rank) : u.narrow(1, 0, rank);
}

}  // namespace

GaLore::GaLore(const Parameters& parameters, const TrainConfig& config)
    : MatrixOptimizer(parameters, config),
      beta1_(config.beta1),
      beta2_(config.beta2),
      eps_(config.adam_eps),
      weight_decay_(config.weight_decay),
      scale_(config.galore_scale),
      every_(config.galore_every) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, w, cut_dim, ranks] : matrices_) {
    if (ranks != nullptr)
      throw core::UsageError(fmt::format("--optimizer galore: a rank has a part of {}; take muon or adamw", name));
    const int64_t n = w.size(0), m = w.size(1), rank = std::min({config.rank, n, m});
    const torch::Tensor rows = w.new_zeros({n, rank}), columns = w.new_zeros({rank, m});
    const torch::Tensor& moments = projects_rows(w) ? rows : columns;
    subspaces_.push_back(
        {.projection = projects_rows(w) ? columns : rows, .first = moments, .second = moments.clone()});
  }
}

std::vector<Optimizer::State> GaLore::state_of_matrices() const {
  std::vector<State> all;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    all.push_back({"ortho_matrix." + matrices_[i].name, subspaces_[i].projection});
    all.push_back({"exp_avg." + matrices_[i].name, subspaces_[i].first});
    all.push_back({"exp_avg_sq." + matrices_[i].name, subspaces_[i].second});
  }
  return all;
}

void GaLore::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  const bool new_subspace = steps() % every_ == 0;
  others_.step(lr, gradient_scale);
  const auto t = static_cast<double>(steps());
  const double corrected_lr = lr * std::sqrt(1.0 - std::pow(beta2_, t)) / (1.0 - std::pow(beta1_, t));
  // One matrix after the other: what is needed besides the state is one matrix's.
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const torch::Tensor &w = matrices_[i].tensor, &g = w.grad();
    auto& [p, first, second] = subspaces_[i];
    if (gradient_scale != 1.0) g.mul_(gradient_scale);
    const bool rows = projects_rows(w);
    if (new_subspace) p.copy_(largest_singular_vectors(g, p.size(rows ? 0 : 1)));
    const torch::Tensor low = rows ? g.mm(p.t()) : p.t().mm(g);
    first.mul_(beta1_).add_(low, 1.0 - beta1_);
    second.mul_(beta2_).addcmul_(low, low, 1.0 - beta2_);
    const torch::Tensor update = first / second.sqrt().add_(eps_);
    w.addmm_(rows ? update : p, rows ? p : update, /*beta=*/1.0, /*alpha=*/-corrected_lr * scale_);
    w.mul_(1.0 - lr * weight_decay_);
  }
}

}  // namespace folio::train
