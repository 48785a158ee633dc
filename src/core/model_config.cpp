#include "core/model_config.h"

#include <cmath>
#include <type_traits>

#include "core/error.h"

namespace folio::core {
void validate(const ModelConfig& config, const std::string& where) {
  // The limits are larger than any published Llama's, and small enough that the product of three fits in 64 bits.
  ModelConfig::visit_fields(config, [&](const char* name, auto value, const ConfigField& field) {
    if constexpr (std::is_same_v<decltype(value), int64_t>) {
      const auto low = static_cast<int64_t>(field.low), high = static_cast<int64_t>(field.high);
      require(value >= low && value <= high, "{}: {} is {}, but has to be in [{}, {}]", where, name, value, low, high);
    }
  });
  require(config.n_heads % config.n_kv_heads == 0, "{}: n_heads {} is not a multiple of n_kv_heads {}", where,
          config.n_heads, config.n_kv_heads);
  require(config.head_dim % 2 == 0, "{}: head_dim is {}, but RoPE rotates pairs, so it has to be even", where,
          config.head_dim);
  require(config.query_dim() <= 1 << 20, "{}: {} heads of {} numbers are too wide", where, config.n_heads,
          config.head_dim);
  require(config.sliding_window == 0 || info(config.family).window != HfWindow::None,
          "{}: a sliding window of {}, but the family {} has none", where, config.sliding_window, config.family);
  require(std::isfinite(config.rope_theta) && config.rope_theta >= 1.0F,
          "{}: rope_theta is {}, but has to be a finite number of at least 1", where, config.rope_theta);
  const RopeScaling& scaling = config.rope_scaling;
  require(std::isfinite(scaling.factor) && scaling.factor >= 1.0F,
          "{}: rope_scaling_factor is {}, but has to be a finite number of at least 1", where, scaling.factor);
  require(std::isfinite(scaling.high_freq_factor) && scaling.low_freq_factor > 0.0F &&
              scaling.low_freq_factor < scaling.high_freq_factor,
          "{}: rope_scaling_low is {} and rope_scaling_high {}, but they have to be positive, finite and in that order",
          where, scaling.low_freq_factor, scaling.high_freq_factor);
  require(std::isfinite(config.norm_eps) && config.norm_eps > 0.0F && config.norm_eps <= 1.0F,
          "{}: norm_eps is {}, but has to be in (0, 1]", where, config.norm_eps);
}

int64_t even_head_dim(int64_t dim, int64_t n_heads, const std::string& where) {
  if (n_heads < 1) return 0;
  require(dim % n_heads == 0, "{}: dim {} is not a multiple of n_heads {}", where, dim, n_heads);
  return dim / n_heads;
}

int64_t parameter_count(const ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  const int64_t attention = 2 * c.dim * c.query_dim() + 2 * c.dim * c.kv_dim() +
                            (family.qkv_bias ? c.query_dim() + 2 * c.kv_dim() : 0) +
                            (family.qk_norm ? 2 * c.head_dim : 0);
  const int64_t feed_forward = 3 * c.dim * c.hidden_dim;
  const int64_t norms = 2 * c.dim;
  return c.vocab_size * c.dim * (c.tie_embeddings ? 1 : 2) + c.n_layers * (attention + feed_forward + norms) + c.dim;
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
