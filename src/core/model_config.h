// The shape of a model: its family, and every number that decides which tensors exist and how the forward pass runs.
// `visit_fields` is the only list of these fields; printing, parsing and comparing all go through it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/families.h"

namespace folio::core {

/// How RoPE's frequencies are scaled for contexts longer than the original one: see core/rope_scaling.h.
enum class RopeScalingType : uint8_t { Llama3, Linear, Yarn, LongRope };
inline constexpr std::array<std::string_view, 4> kRopeScalingNames{"llama3", "linear", "yarn", "longrope"};

struct RopeScaling {
  RopeScalingType type = RopeScalingType::Llama3;
  float factor = 1.0F;            ///< 1: no scaling, but of LongRope
  float low_freq_factor = 1.0F;   ///< Llama3: pairs with fewer turns in the original context are scaled by the factor,
  float high_freq_factor = 4.0F;  ///< and those with more turns are not. Yarn: beta_slow and beta_fast, the same.
  int64_t original_context = 8192;
  float magnitude = 1.0F;              ///< factor of what is rotated, of Yarn and LongRope
  bool whole_pairs = true;             ///< Yarn: the borders between pairs are rounded
  std::vector<float> short_factors{};  ///< LongRope: the divisor of each pair's frequency in the original context,
  std::vector<float> long_factors{};   ///< and in longer ones

  [[nodiscard]] bool active() const { return factor != 1.0F || type == RopeScalingType::LongRope; }
  bool operator==(const RopeScaling&) const = default;
};

template <typename Json>
void to_json(Json& json, RopeScalingType type) {
  json = std::string(kRopeScalingNames.at(static_cast<size_t>(type)));
}
/// Throws Error "WHAT: …" for another name.
[[nodiscard]] RopeScalingType rope_scaling_named(std::string_view name, const std::string& what);
template <typename Json>
void from_json(const Json& json, RopeScalingType& type) {
  type = rope_scaling_named(json.template get<std::string>(), "rope_scaling_type");
}

/// What is said of a field of a configuration, once: `train`'s flags, config.toml and trainer.json follow from it.
struct ConfigField {
  static constexpr bool kLater = true;

  const char* flag;  ///< and the key in config.toml; empty: it has none
  const char* help;
  double low, high;    ///< of a number; no limits where both are 0
  bool later = false;  ///< added after the first version: where a trainer.json lacks it, it has its default
};

struct ModelConfig {
  Family family = Family::Llama;
  int64_t vocab_size = 0;  ///< tokens, including `<|endoftext|>`
  int64_t dim = 128;       ///< width of the residual stream
  int64_t n_layers = 4;
  int64_t n_heads = 4;     ///< query heads
  int64_t n_kv_heads = 4;  ///< key/value heads: n_heads (MHA), 1 (MQA), or a divisor of n_heads (GQA)
  /// Numbers of a head; all heads may be wider than dim together. Who changes dim or n_heads later sets it, too.
  int64_t head_dim = n_heads > 0 ? dim / n_heads : 0;
  int64_t hidden_dim = 352;  ///< inner width of SwiGLU
  int64_t n_experts = 0;     ///< feed-forward networks of a layer, of which a token takes some; 0: one for all
  int64_t experts_per_token = 0;
  int64_t expert_dim = 0;         ///< inner width of an expert
  int64_t shared_dim = 0;         ///< inner width of the experts that all tokens take, which are one network; 0: none
  int64_t dense_layers = 0;       ///< so many layers, the first, have one feed-forward network all the same
  int64_t expert_groups = 1;      ///< experts are in so many groups,
  int64_t groups_per_token = 1;   ///< of which a token takes its experts from so many
  bool normalize_routes = false;  ///< the weights of a token's experts are divided by their sum
  float route_scale = 1.0F;       ///< and multiplied by this
  int64_t context_length = 256;   ///< the maximum number of positions of a sequence
  int64_t sliding_window = 0;     ///< a position attends to so many, up to itself; 0: to all
  int64_t window_period = 1;      ///< layers l with (l + 1) % window_period == 0 see all positions; 1: none does
  float rope_theta = 10000.0F;
  float local_rope_theta = 0.0F;  ///< of layers with a window, without scaling; 0: as the others
  int64_t rope_dims = 0;          ///< so many numbers of a head, the first, are rotated; 0: all
  float norm_eps = 1e-5F;
  RopeScaling rope_scaling{};
  bool tie_embeddings = true;    ///< the output projection is the embedding matrix
  bool other_qkv_bias = false;   ///< GLM: biases of queries, keys and values where the family has none, or the reverse
  float embedding_scale = 1.0F;  ///< factor of the embeddings
  float attention_scale = 0.0F;  ///< factor of q · k; 0: 1 / sqrt(head_dim)
  float attention_cap = 0.0F;    ///< scaled scores s become cap · tanh(s / cap); 0: they stay
  float residual_scale = 1.0F;   ///< factor of what attention and feed-forward add to the residual stream
  float logit_scale = 1.0F;      ///< factor of the logits
  float logit_cap = 0.0F;        ///< logits become cap · tanh(logit / cap); 0: they stay

  [[nodiscard]] bool qkv_bias() const { return info(family).qkv_bias != other_qkv_bias; }
  [[nodiscard]] int64_t query_dim() const { return n_heads * head_dim; }
  [[nodiscard]] int64_t kv_dim() const { return n_kv_heads * head_dim; }
  [[nodiscard]] int64_t rotated() const { return rope_dims > 0 ? rope_dims : head_dim; }
  [[nodiscard]] bool has_window(int64_t layer) const {
    return sliding_window > 0 && (window_period == 1 || (layer + 1) % window_period != 0);
  }
  [[nodiscard]] float score_scale() const {
    return attention_scale > 0.0F ? attention_scale : 1.0F / std::sqrt(static_cast<float>(head_dim));
  }
  [[nodiscard]] bool has_experts(int64_t layer) const { return n_experts > 0 && layer >= dense_layers; }
  /// Whether no part is needed but Llama's, and no scaling of its rotations.
  [[nodiscard]] bool is_plain() const;

  bool operator==(const ModelConfig&) const = default;

  /// Calls visit(name, field, ConfigField) for each field. `Self` is a ModelConfig or a const one.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    using F = ConfigField;
    visit("family", self.family, F{"family", "", 0, 0, F::kLater});
    visit("vocab_size", self.vocab_size, F{"", "", 1, 1 << 22});
    visit("dim", self.dim, F{"dim", "width of the residual stream", 1, 1 << 17});
    visit("n_layers", self.n_layers, F{"layers", "blocks", 1, 1 << 10});
    visit("n_heads", self.n_heads, F{"heads", "query heads", 1, 1 << 12});
    visit("n_kv_heads", self.n_kv_heads,
          F{"kv-heads", "key/value heads: fewer than --heads for GQA, 1 for MQA", 1, 1 << 12});
    visit("head_dim", self.head_dim,
          F{"head-dim", "width of a head (default: --dim / --heads)", 1, 1 << 17, F::kLater});
    visit("hidden_dim", self.hidden_dim, F{"hidden-dim", "inner width of SwiGLU", 1, 1 << 20});
    visit("n_experts", self.n_experts,
          F{"experts", "feed-forward networks of a layer, of which a token takes some; 0: one", 0, 1 << 12, F::kLater});
    visit("experts_per_token", self.experts_per_token,
          F{"experts-per-token", "experts that a token takes", 0, 1 << 8, F::kLater});
    visit("expert_dim", self.expert_dim, F{"expert-dim", "inner width of an expert", 0, 1 << 20, F::kLater});
    visit("shared_dim", self.shared_dim,
          F{"shared-dim", "inner width of the experts that all tokens take; 0: none", 0, 1 << 20, F::kLater});
    visit("dense_layers", self.dense_layers,
          F{"dense-layers", "so many layers, the first, have no experts", 0, 1 << 10, F::kLater});
    visit("expert_groups", self.expert_groups, F{"expert-groups", "groups of experts", 1, 1 << 12, F::kLater});
    visit("groups_per_token", self.groups_per_token,
          F{"groups-per-token", "groups that a token's experts are from", 1, 1 << 12, F::kLater});
    visit("normalize_routes", self.normalize_routes,
          F{"normalize-routes", "whether the weights of a token's experts sum to 1: true or false", 0, 0, F::kLater});
    visit("route_scale", self.route_scale,
          F{"route-scale", "factor of the weights of a token's experts", 1e-6, 1e6, F::kLater});
    visit("context_length", self.context_length, F{"context", "maximum length of a sequence", 1, 1 << 24});
    visit("sliding_window", self.sliding_window,
          F{"sliding-window", "positions that one attends to; 0: all; not for llama", 0, 1 << 24, F::kLater});
    visit("window_period", self.window_period, F{"", "", 1, 1 << 10, F::kLater});
    visit("local_rope_theta", self.local_rope_theta, F{"", "", 0, 1e9, F::kLater});
    visit("rope_dims", self.rope_dims, F{"", "", 0, 1 << 17, F::kLater});
    visit("embedding_scale", self.embedding_scale, F{"", "", 1e-6, 1e6, F::kLater});
    visit("attention_scale", self.attention_scale, F{"", "", 0, 1e6, F::kLater});
    visit("attention_cap", self.attention_cap, F{"", "", 0, 1e6, F::kLater});
    visit("residual_scale", self.residual_scale, F{"", "", 1e-6, 1e6, F::kLater});
    visit("logit_scale", self.logit_scale, F{"", "", 1e-6, 1e6, F::kLater});
    visit("logit_cap", self.logit_cap, F{"", "", 0, 1e6, F::kLater});
    visit("rope_theta", self.rope_theta, F{"rope-theta", "base of RoPE's frequencies", 1, 1e9});
    visit("norm_eps", self.norm_eps, F{"norm-eps", "epsilon of the norms", 1e-12, 1});
    visit("rope_scaling_type", self.rope_scaling.type, F{"", "", 0, 0, F::kLater});
    visit("rope_scaling_factor", self.rope_scaling.factor,
          F{"rope-scaling", "Llama 3's scaling of RoPE's low frequencies; 1: none", 1, 1e6, F::kLater});
    visit("rope_scaling_low", self.rope_scaling.low_freq_factor,
          F{"rope-scaling-low", "turns below which a pair is scaled by it", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_high", self.rope_scaling.high_freq_factor,
          F{"rope-scaling-high", "turns above which a pair is not scaled", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_context", self.rope_scaling.original_context,
          F{"rope-scaling-context", "context in which turns are counted", 1, 1 << 24, F::kLater});
    visit("rope_scaling_magnitude", self.rope_scaling.magnitude, F{"", "", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_whole_pairs", self.rope_scaling.whole_pairs, F{"", "", 0, 0, F::kLater});
    visit("rope_scaling_short", self.rope_scaling.short_factors, F{"", "", 0, 0, F::kLater});
    visit("rope_scaling_long", self.rope_scaling.long_factors, F{"", "", 0, 0, F::kLater});
    visit("tie_embeddings", self.tie_embeddings,
          F{"tie-embeddings", "whether the output is the embedding: true or false", 0, 0});
    visit("other_qkv_bias", self.other_qkv_bias, F{"", "", 0, 0, F::kLater});
  }
};

/// Throws Error unless the configuration is possible. `where` names its source in the message.
void validate(const ModelConfig& config, const std::string& where);

/// dim / n_heads: the width of a head where nothing else is said. Throws Error unless it is a whole
/// number. 0 without heads, which validate() refuses.
[[nodiscard]] int64_t even_head_dim(int64_t dim, int64_t n_heads, const std::string& where);

/// The fields in which two configurations differ, as "n_heads 4 -> 8, dim 128 -> 256"; empty if none.
[[nodiscard]] std::string describe_difference(const ModelConfig& from, const ModelConfig& to);

}  // namespace folio::core

template <>
struct fmt::formatter<folio::core::RopeScalingType> : fmt::formatter<std::string_view> {
  auto format(folio::core::RopeScalingType type, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(folio::core::kRopeScalingNames.at(static_cast<size_t>(type)),
                                                    context);
  }
};
