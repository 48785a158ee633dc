// Configurations of small models with experts, for tests.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace folio::test {

/// Returns a small configuration of `family` with four experts, of which each token uses two.
inline core::ModelConfig mixture_config(core::Family family) {
  core::ModelConfig c{.family = family,
                      .vocab_size = 7,
                      .dim = 8,
                      .n_layers = 2,
                      .n_heads = 2,
                      .n_kv_heads = 1,
                      .hidden_dim = 4,
                      .n_experts = 4,
                      .experts_per_token = 2,
                      .expert_dim = 3,
                      .context_length = 12};
  const core::FamilyInfo& info = core::info(family);
  c.normalize_routes = info.mixture.normalizes;
  if (info.latent) {
    c.n_kv_heads = c.n_heads;
    c.kv_lora_rank = 5;
    c.q_lora_rank = family == core::Family::DeepseekV3 ? 3 : 0;
    c.qk_nope_head_dim = 3;
    c.qk_rope_head_dim = 2;
    c.v_head_dim = 4;
    c.head_dim = 5;
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
