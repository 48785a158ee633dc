// Configurations of small models with experts, for tests.
#pragma once

#include <vector>

#include "tests/core/model_shapes.h"

namespace folio::test {

/// Returns a small configuration of `family` with four experts, of which each token uses two.
inline core::ModelConfig mixture_config(core::Family family) {
  core::ModelConfig c{
      .vocab_size = 7, .dim = 8, .n_layers = 2, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 4, .context_length = 12};
  core::test::add_experts(c, family, 4, 3);
  const core::FamilyInfo& info = core::info(family);
  if (info.latent) {
    const int64_t query_rank = family == core::Family::DeepseekV3 ? 3 : 0;
    core::test::add_latent(c, {.kv_rank = 5, .query_rank = query_rank, .nope = 3, .rope = 2, .value = 4});
  }
  if (info.mixture.shared_gate || info.mixture.deepseek) c.shared_dim = 3;
  if (info.mixture.deepseek) {
    c.expert_groups = 2;
    c.groups_per_token = 1;
    c.route_scale = 2.5F;
    c.dense_layers = 1;
  }
  return c;
}

/// Returns mixture_config() for each family with experts.
inline std::vector<core::ModelConfig> mixture_configs() {
  std::vector<core::ModelConfig> all;
  for (const core::FamilyInfo& family : core::families()) {
    if (!family.mixture.none) all.push_back(mixture_config(family.family));
  }
  return all;
}

}  // namespace folio::test
