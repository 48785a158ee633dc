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
    : beta1_(config.beta1),
      beta2_(config.beta2),
      eps_(config.adam_eps),
      weight_decay_(config.weight_decay),
      scale_(config.galore_scale),
      every_(config.galore_every),
      others_(parameters, config,
              [](const std::string& name, const torch::Tensor& p) { return !is_matrix_of_block(name, p); }),
      parameters_(others_.parameters()) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, w, cut_dim, ranks] : parameters.all) {
    if (!is_matrix_of_block(name, w)) continue;
    if (ranks != nullptr)
      throw core::UsageError(fmt::format("--optimizer galore: a rank has a part of {}; take muon or adamw", name));
    const int64_t n = w.size(0), m = w.size(1), rank = std::min({config.rank, n, m});
    const bool rows = projects_rows(w);
    const torch::Tensor moments = rows ? w.new_zeros({n, rank}) : w.new_zeros({rank, m});
    matrices_.push_back({.name = name,
                         .parameter = w,
                         .projection = rows ? w.new_zeros({rank, m}) : w.new_zeros({n, rank}),
                         .first = moments,
                         .second = moments.clone()});
    parameters_.push_back(w);
  }
}

std::vector<Optimizer::State> GaLore::state() const {
  std::vector<State> all;
  for (const Matrix& matrix : matrices_) {
    all.push_back({"ortho_matrix." + matrix.name, matrix.projection});
    all.push_back({"exp_avg." + matrix.name, matrix.first});
    all.push_back({"exp_avg_sq." + matrix.name, matrix.second});
  }
  for (State& state : others_.state()) all.push_back(std::move(state));
  return all;
}

void GaLore::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  const bool new_subspace = steps() % every_ == 0;
  others_.step(lr, gradient_scale);
  const auto t = static_cast<double>(steps());
  const double corrected_lr = lr * std::sqrt(1.0 - std::pow(beta2_, t)) / (1.0 - std::pow(beta1_, t));
  // One matrix after the other: what is needed beside the state is one matrix's.
  for (Matrix& matrix : matrices_) {
    torch::Tensor& w = matrix.parameter;
    torch::Tensor& p = matrix.projection;
    torch::Tensor g = w.grad();
    if (gradient_scale != 1.0) g.mul_(gradient_scale);
    const bool rows = projects_rows(w);
    if (new_subspace) p.copy_(largest_singular_vectors(g, p.size(rows ? 0 : 1)));
    const torch::Tensor low = rows ? g.mm(p.t()) : p.t().mm(g);
    matrix.first.mul_(beta1_).add_(low, 1.0 - beta1_);
    matrix.second.mul_(beta2_).addcmul_(low, low, 1.0 - beta2_);
    const torch::Tensor update = matrix.first / matrix.second.sqrt().add_(eps_);
    w.addmm_(rows ? update : p, rows ? p : update, /*beta=*/1.0, /*alpha=*/-corrected_lr * scale_);
    w.mul_(1.0 - lr * weight_decay_);
  }
}

}  // namespace folio::train
