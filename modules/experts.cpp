// Shapes: B sequences, T positions, N = B T rows, D model width, E experts, K of them for a row, F an expert's width.
#include "modules/experts.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <limits>
#include <utility>

#include "core/error.h"
#include "modules/fused/experts.h"
#include "modules/shapes.h"

namespace folio::nn {
namespace {

using torch::Tensor;

// The columns of `by` [N, E] outside of the best groups become -∞. A group's score is the sum of its two largest.
Tensor within_best_groups(const Tensor& by_NE, const core::ModelConfig& c) {
  const int64_t size = c.n_experts / c.expert_groups;
  const auto by_NGS = by_NE.unflatten(1, {c.expert_groups, size});
  const auto groups_NG = std::get<0>(by_NGS.topk(std::min<int64_t>(2, size), -1)).sum(-1);
  const auto best = std::get<1>(groups_NG.topk(c.groups_per_token, -1));
  const auto outside_NG = torch::ones_like(groups_NG, torch::kBool).scatter(1, best, false);
  return by_NGS.masked_fill(outside_NG.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(1);
}

}  // namespace

MixtureImpl::MixtureImpl(const core::ModelConfig& config) : MixtureImpl(config, config.n_experts) {}

MixtureImpl::MixtureImpl(const core::ModelConfig& config, int64_t n_here)
    : config_(config),
      router_(nullptr),
      selection_(nullptr),
      w1_(nullptr),
      w3_(nullptr),
      w2_(nullptr),
      shared_gate_(nullptr),
      shared_(nullptr),
      operands_(std::make_shared<fused::ExpertOperands>()) {
  core::validate(config, "Mixture");
  core::require(config.n_experts > 0, "Mixture: the configuration has no experts");
  const int64_t E = config.n_experts, D = config.dim, F = config.expert_dim;
  const core::MixtureInfo& mixture = core::info(config.family).mixture;
  router_ = register_module("router", NamedTensor("weight", torch::zeros({E, D})));
  if (mixture.selection_bias) {
    selection_ = register_module("selection", NamedTensor("bias", torch::zeros({E}), /*trained=*/false));
  }
  const auto experts = register_module("experts", std::make_shared<torch::nn::Module>());
  w1_ = experts->register_module("w1", NamedTensor("weight", torch::zeros({n_here, F, D})));
  w3_ = experts->register_module("w3", NamedTensor("weight", torch::zeros({n_here, F, D})));
  w2_ = experts->register_module("w2", NamedTensor("weight", torch::zeros({n_here, D, F})));
  if (mixture.biases) {
    router_->add_bias(torch::zeros({E}));
    w1_->add_bias(torch::zeros({n_here, F}));
    w3_->add_bias(torch::zeros({n_here, F}));
    w2_->add_bias(torch::zeros({n_here, D}));
  }
  if (config.shared_dim == 0) return;
  if (mixture.shared_gate) shared_gate_ = register_module("shared_gate", NamedTensor("weight", torch::zeros({D})));
  shared_ = register_module("shared", SwiGLU(D, config.shared_dim));
}

Tensor MixtureImpl::forward(const Tensor& x_BTD) {
  require_BTD(x_BTD, config_.dim, "Mixture");
  const auto x_ND = x_BTD.flatten(0, 1);
  const Routes routes = route(x_ND);
  const auto chosen_E = routes.experts.flatten().bincount({}, config_.n_experts);
  load_ = {.chosen = load_.chosen.defined() ? load_.chosen + chosen_E : chosen_E,
           .mean_scores = routes.scores.mean(0),
           .n_rows = load_.n_rows + x_ND.size(0)};

  auto y_ND = of_experts(x_ND, routes);
  if (shared_) {
    auto shared_ND = shared_->forward(x_BTD).flatten(0, 1);
    if (shared_gate_) shared_ND = shared_ND * torch::sigmoid(x_ND.mv(shared_gate_->value)).unsqueeze(-1);
    y_ND = y_ND + shared_ND;
  }
  return y_ND.view_as(x_BTD);
}

Routes MixtureImpl::route(const Tensor& x_ND) const {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto logits_NE = torch::linear(x_ND, router_->value, router_->bias);
  const bool sigmoid = core::info(config_.family).mixture.score == core::RouterScore::Sigmoid;
  const auto scores_NE = sigmoid ? torch::sigmoid(logits_NE) : torch::softmax(logits_NE, -1);

  auto by_NE = scores_NE.detach();
  if (selection_) by_NE = by_NE + selection_->value;
  if (config_.groups_per_token < config_.expert_groups) by_NE = within_best_groups(by_NE, config_);
  const auto experts_NK = std::get<0>(std::get<1>(by_NE.topk(config_.experts_per_token, -1)).sort(-1));
  auto weights_NK = scores_NE.gather(1, experts_NK);
  if (config_.normalize_routes) weights_NK = weights_NK / (weights_NK.sum(-1, /*keepdim=*/true) + 1e-20);
  if (config_.route_scale != 1.0F) weights_NK = weights_NK * config_.route_scale;
  return {.scores = scores_NE, .experts = experts_NK, .weights = weights_NK};
}

Tensor MixtureImpl::of_experts(const Tensor& x_ND, const Routes& routes) {
  return of_experts_here(x_ND, routes.experts, routes.weights);
}

Tensor MixtureImpl::of_experts_here(const Tensor& x_ND, const Tensor& experts_NK, const Tensor& weights_NK) {
  // Without rows gradients are 0, and there: who waits for them cannot know.
  if (x_ND.size(0) == 0) {
    Tensor y_ND = x_ND;
    for (const NamedTensor& w : {w1_, w3_, w2_}) {
      y_ND = y_ND + 0.0 * w->value.sum();
      if (w->bias.defined()) y_ND = y_ND + 0.0 * w->bias.sum();
    }
    return y_ND;
  }
  const core::FamilyInfo& family = core::info(config_.family);
  const bool has_fused = family.gate == core::Gate::Silu && !family.mixture.biases;
  if (form == Form::Fused && has_fused && x_ND.is_cpu()) {
    return fused::experts(x_ND, experts_NK, weights_NK, w1_->value, w3_->value, w2_->value, *operands_);
  }
  auto y_ND = torch::zeros_like(x_ND);
  for (int64_t e = 0; e < w1_->value.size(0); ++e) {
    const auto at = (experts_NK == e).nonzero();  // [n, 2]: rows that chose it, and where in theirs
    if (at.size(0) == 0) continue;
    const auto rows_n = at.select(1, 0);
    const auto x_nD = x_ND.index_select(0, rows_n);
    const auto product = [&](const Tensor& x, const NamedTensor& w) {
      return torch::linear(x, w->value[e], w->bias.defined() ? w->bias[e] : Tensor());
    };
    const auto hidden_nF = gated(family.gate, product(x_nD, w1_), product(x_nD, w3_));
    const auto weight_n = weights_NK.index({rows_n, at.select(1, 1)});
    const auto out_nD = product(hidden_nF, w2_) * weight_n.unsqueeze(-1);
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
