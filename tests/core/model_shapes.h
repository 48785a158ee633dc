// Adds experts or latent attention to small configurations of models, for tests.
#pragma once

#include "core/model_config.h"

namespace folio::core::test {

/// Makes `c` a model of `family` with `n` experts of width `dim`, of which each token uses two.
inline void add_experts(ModelConfig& c, Family family, int64_t n, int64_t dim) {
  c.family = family;
  c.n_experts = n;
  c.experts_per_token = 2;
  c.expert_dim = dim;
  c.normalize_routes = info(family).mixture.normalizes;
}

/// Dimensions of latent attention. A query has a latent only if its rank isn't 0.
struct LatentDims {
  int64_t kv_rank, query_rank, nope, rope, value;
};

inline void add_latent(ModelConfig& c, const LatentDims& dims) {
  c.n_kv_heads = c.n_heads;
  c.head_dim = dims.nope + dims.rope;
  c.kv_lora_rank = dims.kv_rank;
  c.q_lora_rank = dims.query_rank;
  c.qk_nope_head_dim = dims.nope;
  c.qk_rope_head_dim = dims.rope;
  c.v_head_dim = dims.value;
}

}  // namespace folio::core::test
