// Shapes: B sequences, T positions, N = B T rows, D model width, E experts, K experts per row, F hidden width of an
// expert, G groups of S experts.
#include "modules/families/mixture.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <limits>
#include <memory>
#include <utility>

#include "core/error.h"
#include "modules/families/feed_forward.h"
#include "modules/families/named_tensor.h"
#include "modules/shapes.h"

namespace folio::nn {
namespace {

using torch::Tensor;

// Returns the scores by_NE with -∞ for experts outside the best groups. A group's score is the sum of the two largest
// scores in it or, in some families, only the largest.
Tensor within_best_groups(const Tensor& by_NE, const core::ModelConfig& c) {
  const int64_t size = c.n_experts / c.expert_groups;
  const auto by_NGS = by_NE.unflatten(1, {c.expert_groups, size});
  const int64_t best_of_group = core::info(c.family).mixture.groups_by_max ? 1 : 2;
  const auto groups_NG = std::get<0>(by_NGS.topk(std::min(best_of_group, size), -1)).sum(-1);
  const auto best = std::get<1>(groups_NG.topk(c.groups_per_token, -1));
  const auto outside_NG = torch::ones_like(groups_NG, torch::kBool).scatter(1, best, false);
  return by_NGS.masked_fill(outside_NG.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(1);
}

}  // namespace

MixtureImpl::MixtureImpl(const core::ModelConfig& config, ExpertProducts products, const Linears& linears,
                         const std::string& name, std::optional<int64_t> n_here)
    : config_(config), products_(std::move(products)), shared_(nullptr) {
  core::validate(config, "Mixture");
  core::require(config.n_experts > 0, "Mixture: the configuration has no experts");
  const int64_t E = config.n_experts, E_here = n_here.value_or(E), D = config.dim, F = config.expert_dim;
  const core::MixtureInfo& mixture = core::info(config.family).mixture;
  const auto zeros = [&](const char* parameter, std::vector<int64_t> shape, bool trained = true) {
    return register_named(*this, parameter, torch::zeros(shape), trained);
  };
  router_ = zeros("router.weight", {E, D});
  if (mixture.selection_bias) selection_ = zeros("selection.bias", {E}, /*trained=*/false);
  if (mixture.biases) router_bias_ = zeros("router.bias", {E});
  w1_ = zeros("experts.w1.weight", {E_here, F, D});
  w3_ = zeros("experts.w3.weight", {E_here, F, D});
  w2_ = zeros("experts.w2.weight", {E_here, D, F});
  if (mixture.biases) {
    b1_ = zeros("experts.w1.bias", {E_here, F});
    b3_ = zeros("experts.w3.bias", {E_here, F});
    b2_ = zeros("experts.w2.bias", {E_here, D});
  }
  if (config.shared_dim == 0) return;
  if (mixture.shared_gate) shared_gate_ = zeros("shared_gate.weight", {D});
  shared_ = register_module("shared", SwiGLU(D, config.shared_dim, linears, name + ".shared"));
}

Routes MixtureImpl::route(const Tensor& x_ND) const {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto logits_NE = torch::linear(x_ND, router_, router_bias_);
  const bool sigmoid = core::info(config_.family).mixture.score == core::RouterScore::Sigmoid;
  const auto scores_NE = sigmoid ? torch::sigmoid(logits_NE) : torch::softmax(logits_NE, -1);

  auto by_NE = scores_NE.detach();
  if (selection_.defined()) by_NE = by_NE + selection_;
  if (config_.groups_per_token < config_.expert_groups) by_NE = within_best_groups(by_NE, config_);
  const auto experts_NK = std::get<0>(std::get<1>(by_NE.topk(config_.experts_per_token, -1)).sort(-1));
  auto weights_NK = scores_NE.gather(1, experts_NK);
  if (config_.normalize_routes) weights_NK = weights_NK / (weights_NK.sum(-1, /*keepdim=*/true) + 1e-20);
  if (config_.route_scale != 1.0F) weights_NK = weights_NK * config_.route_scale;
  return {.scores = scores_NE, .experts = experts_NK, .weights = weights_NK};
}

Tensor MixtureImpl::forward(const Tensor& x_BTD) {
  require_BTD(x_BTD, config_.dim, "Mixture");
  const auto x_ND = x_BTD.flatten(0, 1);
  const Routes routes = route(x_ND);
  const auto chosen_E = routes.experts.flatten().bincount({}, config_.n_experts);
  load_ = {.chosen = load_.chosen.defined() ? load_.chosen + chosen_E : chosen_E,
           .scores = routes.scores.view({x_BTD.size(0), x_BTD.size(1), -1}),
           .n_rows = load_.n_rows + x_ND.size(0)};

  auto y_ND = of_experts(x_ND, routes);
  if (shared_) {
    auto shared_ND = shared_->forward(x_BTD).flatten(0, 1);
    if (shared_gate_.defined()) shared_ND = shared_ND * torch::sigmoid(x_ND.mv(shared_gate_)).unsqueeze(-1);
    y_ND = y_ND + shared_ND;
  }
  return y_ND.view_as(x_BTD);
}

Tensor MixtureImpl::local_expert_sum(const Tensor& x_ND, const Tensor& experts_NK, const Tensor& weights_NK) {
  // Without rows, the parameters still need zero gradients: hooks that reduce gradients over ranks wait for them.
  if (x_ND.size(0) == 0) {
    Tensor y_ND = x_ND;
    for (const Tensor& w : {w1_, b1_, w3_, b3_, w2_, b2_}) {
      if (w.defined()) y_ND = y_ND + 0.0 * w.sum();
    }
    return y_ND;
  }
  if (products_) {
    const Tensor y_ND = products_(x_ND, experts_NK, weights_NK, w1_, w3_, w2_);
    if (y_ND.defined()) return y_ND;
  }
  const core::Gate gate = core::info(config_.family).gate;
  auto y_ND = torch::zeros_like(x_ND);
  for (int64_t e = 0; e < w1_.size(0); ++e) {
    const auto at = (experts_NK == e).nonzero();  // [n, 2]: the row, and e's index among the row's K experts
    if (at.size(0) == 0) continue;
    const auto rows_n = at.select(1, 0);
    const auto x_nD = x_ND.index_select(0, rows_n);
    const auto product = [e](const Tensor& x, const Tensor& w, const Tensor& bias) {
      return torch::linear(x, w[e], bias.defined() ? bias[e] : Tensor());
    };
    const auto hidden_nF = gated(gate, product(x_nD, w1_, b1_), product(x_nD, w3_, b3_));
    const auto weight_n = weights_NK.index({rows_n, at.select(1, 1)});
    const auto out_nD = product(hidden_nF, w2_, b2_) * weight_n.unsqueeze(-1);
    y_ND = y_ND.index_add(0, rows_n, out_nD.to(y_ND.scalar_type()));
  }
  return y_ND;
}

std::vector<Mixture> mixtures_of(const torch::nn::Module& model) {
  std::vector<Mixture> mixtures;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto mixture = std::dynamic_pointer_cast<MixtureImpl>(module)) mixtures.emplace_back(std::move(mixture));
  }
  return mixtures;
}

}  // namespace folio::nn
