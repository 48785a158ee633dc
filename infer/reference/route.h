// The router of a mixture of experts. CPUs call it, and GPUs are tested against it.
#pragma once

#include <cstddef>

#include "core/model_config.h"

namespace folio::infer::kernels {

/// Parameters by which a router selects a row's experts and computes their weights from logits, one per expert.
struct Routing {
  core::RouterScore score = core::RouterScore::Softmax;
  size_t n_experts = 0;
  size_t n_chosen = 0;
  size_t n_groups = 1;  ///< groups of adjacent experts, of equal size
  size_t groups_chosen = 1;
  bool groups_by_max = false;
  bool normalizes = false;
  float scale = 1.0F;
};

[[nodiscard]] inline Routing routing_of(const core::ModelConfig& c) {
  return {.score = core::info(c.family).mixture.score,
          .n_experts = static_cast<size_t>(c.n_experts),
          .n_chosen = static_cast<size_t>(c.experts_per_token),
          .n_groups = static_cast<size_t>(c.expert_groups),
          .groups_chosen = static_cast<size_t>(c.groups_per_token),
          .groups_by_max = core::info(c.family).mixture.groups_by_max,
          .normalizes = c.normalize_routes,
          .scale = c.route_scale};
}

/// Replaces logits (n_experts) by the experts' weights, 0 for those not chosen. s is the softmax of the logits, or the
/// sigmoid of each, and c = s + bias (null: 0). A group's score is the sum of its two largest c, or the largest if
/// `groups_by_max`. In the groups with the best scores, the experts with the largest c are chosen, the first among
/// equals. Their weights are s, divided by their Σ s + 1e-20 if `normalizes`, times `scale`. Sums run in expert order.
/// Sources: Fedus et al., "Switch Transformers", 2021, section 2.1; DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2.
void route(float* logits, const float* bias, const Routing& routing);

}  // namespace folio::infer::kernels
