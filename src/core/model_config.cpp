#include "core/model_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "core/error.h"

namespace folio::core {
namespace {

void validate_experts(const ModelConfig& c, const std::string& where) {
  const bool none = info(c.family).mixture.none;
  require(none == (c.n_experts == 0), "{}: the family {} has {} experts, but n_experts is {}", where, c.family,
          none ? "no" : "its", c.n_experts);
  if (none) return;
  require(c.experts_per_token >= 1 && c.experts_per_token <= c.n_experts,
          "{}: experts_per_token is {}, but must be in [1, {}], the number of experts", where, c.experts_per_token,
          c.n_experts);
  require(c.expert_dim >= 1, "{}: expert_dim is {}, but must be at least 1", where, c.expert_dim);
  require(c.n_experts * c.expert_dim <= int64_t{1} << 24, "{}: {} experts of width {} are too many", where, c.n_experts,
          c.expert_dim);
  require(c.n_experts % c.expert_groups == 0, "{}: {} experts cannot be divided into {} equal groups", where,
          c.n_experts, c.expert_groups);
  const int64_t in_group = c.n_experts / c.expert_groups;
  require(c.groups_per_token <= c.expert_groups && c.experts_per_token <= c.groups_per_token * in_group,
          "{}: cannot select {} experts from {} of {} groups of {} experts", where, c.experts_per_token,
          c.groups_per_token, c.expert_groups, in_group);
  require(c.dense_layers < c.n_layers, "{}: dense_layers is {}, but must be less than the {} layers", where,
          c.dense_layers, c.n_layers);
  const FamilyInfo& family = info(c.family);
  require(c.dense_layers == 0 || family.mixture.own_width,
          "{}: dense_layers is {}, but the family {} has experts in all layers", where, c.dense_layers, c.family);
  require(family.mixture.deepseek || (c.expert_groups == 1 && c.route_scale == 1.0F),
          "{}: expert_groups is {} and route_scale {}, but the family {} supports neither", where, c.expert_groups,
          c.route_scale, c.family);
  require(family.mixture.may_normalize || !c.normalize_routes,
          "{}: normalize_routes is true, but the family {} does not normalize routing weights", where, c.family);
}

void validate_latent(const ModelConfig& c, const std::string& where) {
  const bool latent = info(c.family).latent;
  if (!latent) {
    const int64_t largest =
        std::max({c.kv_lora_rank, c.q_lora_rank, c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim});
    require(largest == 0,
            "{}: the family {} has no latent attention, but one of kv_lora_rank, q_lora_rank, qk_nope_head_dim, "
            "qk_rope_head_dim and v_head_dim is {}; use a family that has it, such as deepseek_v3",
            where, c.family, largest);
    return;
  }
  require(c.latent(), "{}: the family {} has latent attention, but kv_lora_rank is 0", where, c.family);
  require(c.qk_nope_head_dim >= 1 && c.qk_rope_head_dim >= 1 && c.v_head_dim >= 1,
          "{}: qk_nope_head_dim is {}, qk_rope_head_dim {} and v_head_dim {}, but each must be at least 1", where,
          c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim);
  require(c.qk_rope_head_dim % 2 == 0, "{}: qk_rope_head_dim is {}, but RoPE rotates pairs, so it must be even", where,
          c.qk_rope_head_dim);
  require(c.head_dim == c.qk_nope_head_dim + c.qk_rope_head_dim && c.rope_dims == 0,
          "{}: head_dim is {} and rope_dims {}, expected {}, the sum of qk_nope_head_dim and qk_rope_head_dim, and 0",
          where, c.head_dim, c.rope_dims, c.qk_nope_head_dim + c.qk_rope_head_dim);
  require(c.n_kv_heads == c.n_heads, "{}: n_kv_heads is {}, but latent attention has one per query head, {}", where,
          c.n_kv_heads, c.n_heads);
  require(c.heads_dim() <= 1 << 20, "{}: {} heads of v_head_dim {} are too wide", where, c.n_heads, c.v_head_dim);
}

}  // namespace

void validate(const ModelConfig& config, const std::string& where) {
  require(std::isfinite(config.norm_eps) && config.norm_eps > 0.0F && config.norm_eps <= 1.0F,
          "{}: norm_eps is {}, but must be in (0, 1]", where, config.norm_eps);
  const RopeScaling& scaling = config.rope_scaling;
  require(std::isfinite(scaling.high_freq_factor) && scaling.low_freq_factor > 0.0F &&
              scaling.low_freq_factor < scaling.high_freq_factor,
          "{}: rope_scaling_low is {} and rope_scaling_high {}, but must be positive, finite and in that order", where,
          scaling.low_freq_factor, scaling.high_freq_factor);
  // ConfigField's limits of integers are above the values of published models, but low enough that a tensor's size fits
  // in 64 bits. Real numbers may exceed their upper limit; a lower limit other than 0 and 1 only requires a positive
  // value.
  ModelConfig::visit_fields(config, [&](const char* name, auto value, const ConfigField& field) {
    if constexpr (std::is_same_v<decltype(value), int64_t>) {
      const auto low = static_cast<int64_t>(field.low), high = static_cast<int64_t>(field.high);
      require(value >= low && value <= high, "{}: {} is {}, but must be in [{}, {}]", where, name, value, low, high);
    } else if constexpr (std::is_same_v<decltype(value), float>) {
      const bool fits = field.low == 0.0 ? value >= 0.0F : field.low == 1.0 ? value >= 1.0F : value > 0.0F;
      require(std::isfinite(value) && fits, "{}: {} is {}, but must {}", where, name, value,
              field.low == 0.0   ? "not be negative"
              : field.low == 1.0 ? "be a finite number of at least 1"
                                 : "be positive");
    }
  });
  require(!config.other_qkv_bias || info(config.family).qkv_bias_varies,
          "{}: other_qkv_bias is true, but a {} {} biases of queries, keys and values", where, config.family,
          info(config.family).qkv_bias ? "always has" : "never has");
  require(config.n_heads % config.n_kv_heads == 0, "{}: n_heads {} is not a multiple of n_kv_heads {}", where,
          config.n_heads, config.n_kv_heads);
  require(config.latent() || config.head_dim % 2 == 0, "{}: head_dim is {}, but RoPE rotates pairs, so it must be even",
          where, config.head_dim);
  require(config.query_dim() <= 1 << 20, "{}: {} heads of head_dim {} are too wide", where, config.n_heads,
          config.head_dim);
  require(config.sliding_window == 0 || info(config.family).sliding_window,
          "{}: sliding_window is {}, but the family {} does not support it", where, config.sliding_window,
          config.family);
  require(config.n_tokens_ahead == 0 || config.window_period == 1,
          "{}: n_tokens_ahead is {}, but in the family {} layers differ in their windows", where, config.n_tokens_ahead,
          config.family);
  const size_t pairs = scaling.type == RopeScalingType::LongRope ? static_cast<size_t>(config.rotated() / 2) : 0;
  for (const auto* factors : {&scaling.short_factors, &scaling.long_factors}) {
    require(factors->size() == pairs, "{}: {} scaling needs {} factors, but has {}", where, scaling.type, pairs,
            factors->size());
    const auto bad = std::ranges::find_if(*factors, [](float f) { return !std::isfinite(f) || f <= 0.0F; });
    require(bad == factors->end(), "{}: a RoPE scaling factor is {}, but must be positive", where,
            bad == factors->end() ? 0.0F : *bad);
  }
  require(config.rope_dims % 2 == 0 && config.rope_dims <= config.head_dim,
          "{}: rope_dims is {}, but must be even, and at most head_dim, {}", where, config.rope_dims, config.head_dim);
  validate_latent(config, where);
  validate_experts(config, where);
}

bool ModelConfig::is_plain() const {
  const FamilyInfo& of = info(family);
  const bool plain_parts = of.pairs == RopePairs::Adjacent && of.pre_norms && !of.post_norms && of.gate == Gate::Silu &&
                           !qkv_bias() && !of.output_bias && !of.sinks && of.qk_norm == QkNorm::None && !of.latent &&
                           n_experts == 0;
  const bool plain_rope = rotated() == head_dim && !rope_scaling.active() && sliding_window == 0;
  const bool plain_scales = embedding_scale == 1.0F && attention_scale == 0.0F && attention_cap == 0.0F &&
                            residual_scale == 1.0F && logit_scale == 1.0F && logit_cap == 0.0F;
  return plain_parts && plain_rope && plain_scales;
}

RopeScalingType rope_scaling_named(std::string_view name, const std::string& what) {
  const auto found = std::ranges::find(kRopeScalingNames, name);
  require(found != kRopeScalingNames.end(), "{}: RoPE scaling of type {} is not supported", what, printable(name));
  return static_cast<RopeScalingType>(found - kRopeScalingNames.begin());
}

int64_t even_head_dim(int64_t dim, int64_t n_heads, const std::string& where) {
  if (n_heads < 1) return 0;
  require(dim % n_heads == 0, "{}: dim {} is not a multiple of n_heads {}", where, dim, n_heads);
  return dim / n_heads;
}

std::string describe_difference(const ModelConfig& from, const ModelConfig& to) {
  std::string difference;
  ModelConfig::visit_fields(from, [&](const std::string& name, auto old_value, auto&&) {
    using Old = decltype(old_value);  // g++ 12 makes decltype of a captured parameter a reference
    ModelConfig::visit_fields(to, [&](const std::string& other, auto new_value, auto&&) {
      if (name != other) return;
      if constexpr (std::is_same_v<Old, decltype(new_value)>) {
        if (old_value == new_value) return;
        difference += fmt::format("{}{} {} -> {}", difference.empty() ? "" : ", ", name, old_value, new_value);
      }
    });
  });
  return difference;
}

}  // namespace folio::core
