// How a mixture chooses a token's experts. It is the same for all machines: a CPU calls it, a GPU is compared with it.
#pragma once

#include <cstddef>

#include "core/model_config.h"

namespace folio::infer::kernels {

/// What a router does with its logits, one of each expert.
struct Routing {
  core::RouterScore score = core::RouterScore::Softmax;
  size_t n_experts = 0;
  size_t n_chosen = 0;
  size_t n_groups = 1;  ///< of neighbouring experts, of equal size
  size_t groups_chosen = 1;
  bool normalizes = false;
  float scale = 1.0F;
};

[[nodiscard]] inline Routing routing_of(const core::ModelConfig& c) {
  return {.score = core::info(c.family).mixture.score,
          .n_experts = static_cast<size_t>(c.n_experts),
          .n_chosen = static_cast<size_t>(c.experts_per_token),
          .n_groups = static_cast<size_t>(c.expert_groups),
          .groups_chosen = static_cast<size_t>(c.groups_per_token),
          .normalizes = c.normalize_routes,
          .scale = c.route_scale};
}

/// Logits (n_experts) become the experts' weights, 0 of those that are not chosen. With s the softmax of the logits, or
/// the sigmoid of each, and c = s + bias (null: 0): a group's score is the sum of its two largest c; of the experts in
/// the best groups those with the largest c are chosen, among equals the first; their weights are s, divided by Σ s
/// over them + 1e-20 if it normalizes, times the scale. Sums run in the order of the experts. Sources: Fedus et al.,
/// "Switch Transformers", 2021, section 2.1; DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2.
void route(float* logits, const float* bias, const Routing& routing);

}  // namespace folio::infer::kernels
