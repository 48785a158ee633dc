#include "infer/reference/route.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/model_config.h"
#include "infer/reference/reference.h"

namespace folio::infer::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void to_scores(float* x, const Routing& routing) {
  const size_t n = routing.n_experts;
  if (routing.sigmoid) {
    for (size_t i = 0; i < n; ++i) x[i] = 1.0F / (1.0F + reference::exp(-x[i]));
    return;
  }
  const float largest = *std::max_element(x, x + n);
  float sum = 0.0F;
  for (size_t i = 0; i < n; ++i) sum += x[i] = reference::exp(x[i] - largest);
  for (size_t i = 0; i < n; ++i) x[i] /= sum;
}

// Marks the n_chosen largest values in `chosen`; ties go to the first.
void choose(std::vector<float>& values, size_t n_chosen, std::vector<bool>& chosen) {
  chosen.assign(values.size(), false);
  for (size_t k = 0; k < n_chosen; ++k) {
    const auto best = static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
    chosen[best] = true;
    values[best] = -kInfinity;
  }
}

}  // namespace

Routing routing_of(const core::ModelConfig& c) {
  const core::MixtureInfo& mixture = core::info(c.family).mixture;
  return {.n_experts = static_cast<uint32_t>(c.n_experts),
          .n_chosen = static_cast<uint32_t>(c.experts_per_token),
          .n_groups = static_cast<uint32_t>(c.expert_groups),
          .groups_chosen = static_cast<uint32_t>(c.groups_per_token),
          .groups_by_max = mixture.groups_by_max,
          .sigmoid = mixture.score == core::RouterScore::Sigmoid,
          .normalizes = c.normalize_routes,
          .scale = c.route_scale};
}

void route(float* x, const float* bias, const Routing& routing) {
  to_scores(x, routing);
  std::vector<float> by(x, x + routing.n_experts);
  for (size_t i = 0; bias != nullptr && i < by.size(); ++i) by[i] += bias[i];
  std::vector<bool> chosen;
  if (routing.groups_chosen < routing.n_groups) {
    const size_t size = routing.n_experts / routing.n_groups;
    const bool two = size > 1 && !routing.groups_by_max;
    std::vector<float> groups;
    for (size_t first = 0; first < by.size(); first += size) {
      float best = -kInfinity, second = -kInfinity;
      for (size_t i = first; i < first + size; ++i) {
        second = std::max(second, std::min(best, by[i]));
        best = std::max(best, by[i]);
      }
      groups.push_back(two ? best + second : best);
    }
    choose(groups, routing.groups_chosen, chosen);
    for (size_t i = 0; i < by.size(); ++i) {
      if (!chosen[i / size]) by[i] = -kInfinity;
    }
  }
  choose(by, routing.n_chosen, chosen);
  float sum = 0.0F;
  for (size_t i = 0; i < routing.n_experts; ++i) sum += chosen[i] ? x[i] : 0.0F;
  const float factor = routing.normalizes ? routing.scale / (sum + 1e-20F) : routing.scale;
  for (size_t i = 0; i < routing.n_experts; ++i) x[i] = chosen[i] ? x[i] * factor : 0.0F;
}

}  // namespace folio::infer::kernels
