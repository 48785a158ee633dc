// The router of a mixture of experts. The CPU backend calls it, and the CUDA router is tested against it. nvcc compiles
// this header, too.
#pragma once

#include <cstdint>

namespace folio::core {
struct ModelConfig;
}

namespace folio::infer::kernels {

/// Parameters of a router, which selects a row's experts and computes their weights from one logit per expert.
struct Routing {
  uint32_t n_experts = 0;
  uint32_t n_chosen = 0;
  uint32_t n_groups = 1;  ///< groups of adjacent experts, of equal size
  uint32_t groups_chosen = 1;
  bool groups_by_max = false;
  bool sigmoid = false;  ///< sigmoid scores instead of softmax
  bool normalizes = false;
  float scale = 1.0F;
};
[[nodiscard]] Routing routing_of(const core::ModelConfig& config);

/// Replaces logits (n_experts) by the experts' weights, 0 for those not chosen. s is the softmax of the logits, or the
/// sigmoid of each, and c = s + bias (null: 0). A group's score is the sum of its two largest c, or the largest if
/// `groups_by_max`. In the groups with the best scores, the experts with the largest c are chosen (ties: the
/// first). Their weights are s, divided by their Σ s + 1e-20 if `normalizes`, times `scale`. Sums run in expert order.
/// Sources: Fedus et al., "Switch Transformers", 2021, section 2.1; DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2.
void route(float* logits, const float* bias, const Routing& routing);

}  // namespace folio::infer::kernels
