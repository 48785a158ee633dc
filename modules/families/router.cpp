// Shapes: N rows, D model width, E experts, K of them for a row, G groups of S experts.
#include "modules/families/router.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <limits>

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

Routes route(const core::ModelConfig& config, const Tensor& x_ND, const NamedTensor& router,
             const NamedTensor& selection) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto logits_NE = torch::linear(x_ND, router->value, router->bias);
  const bool sigmoid = core::info(config.family).mixture.score == core::RouterScore::Sigmoid;
  const auto scores_NE = sigmoid ? torch::sigmoid(logits_NE) : torch::softmax(logits_NE, -1);

  auto by_NE = scores_NE.detach();
  if (!selection.is_empty()) by_NE = by_NE + selection->value;
  if (config.groups_per_token < config.expert_groups) by_NE = within_best_groups(by_NE, config);
  const auto experts_NK = std::get<0>(std::get<1>(by_NE.topk(config.experts_per_token, -1)).sort(-1));
  auto weights_NK = scores_NE.gather(1, experts_NK);
  if (config.normalize_routes) weights_NK = weights_NK / (weights_NK.sum(-1, /*keepdim=*/true) + 1e-20);
  if (config.route_scale != 1.0F) weights_NK = weights_NK * config.route_scale;
  return {.scores = scores_NE, .experts = experts_NK, .weights = weights_NK};
}

}  // namespace folio::nn
