// A model's architecture: its family, and all values that determine its tensors and its forward pass. visit_fields is
// the only list of these fields; printing, parsing and comparison use it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/families.h"

namespace folio::core {

/// How RoPE's frequencies are scaled for contexts longer than the original one. See core/rope_scaling.h.
enum class RopeScalingType : uint8_t { Llama3, Linear, Yarn, LongRope };
inline constexpr std::array<std::string_view, 4> kRopeScalingNames{"llama3", "linear", "yarn", "longrope"};

struct RopeScaling {
  RopeScalingType type = RopeScalingType::Llama3;
  float factor = 1.0F;            ///< 1: frequencies are unchanged, except with LongRope
  float low_freq_factor = 1.0F;   ///< rotations in original_context below which Llama3 scales a pair; Yarn's beta_slow
  float high_freq_factor = 4.0F;  ///< rotations in original_context above which Llama3 keeps a pair; Yarn's beta_fast
  int64_t original_context = 8192;
  float magnitude = 1.0F;              ///< Yarn, LongRope: multiplies rotated queries and keys
  bool whole_pairs = true;             ///< Yarn: rounds the limits of the interpolation ramp to whole pairs
  std::vector<float> short_factors{};  ///< LongRope: divisors of frequencies if context_length <= original_context
  std::vector<float> long_factors{};   ///< LongRope: divisors of frequencies if context_length is larger

  [[nodiscard]] bool active() const { return factor != 1.0F || magnitude != 1.0F || type == RopeScalingType::LongRope; }
  bool operator==(const RopeScaling&) const = default;
};

template <typename Json>
void to_json(Json& json, RopeScalingType type) {
  json = std::string(kRopeScalingNames.at(static_cast<size_t>(type)));
}
/// Returns the type with this name. Throws Error that begins with `what` if there is none.
[[nodiscard]] RopeScalingType rope_scaling_named(std::string_view name, const std::string& what);
template <typename Json>
void from_json(const Json& json, RopeScalingType& type) {
  type = rope_scaling_named(json.template get<std::string>(), "rope_scaling_type");
}

/// Describes a field of ModelConfig or TrainConfig for the program train: its flags, config.toml and trainer.json.
struct ConfigField {
  static constexpr bool kLater = true;

  const char* flag;  ///< command-line flag of train, and key in config.toml; empty if there is none
  const char* help;
  double low, high;    ///< range of a number; if both are 0, there are no limits
  bool later = false;  ///< true if older versions of trainer.json lack the field
};

/// Epsilon of latent attention's two norms. Models can't change it: it is RMSNorm's default in transformers and in
/// their own code.
inline constexpr float kLatentNormEps = 1e-6F;

struct ModelConfig {
  Family family = Family::Llama;
  int64_t vocab_size = 0;  ///< number of tokens, including `<|endoftext|>`
  int64_t dim = 128;       ///< width of the residual stream
  int64_t n_layers = 4;
  int64_t n_tokens_ahead = 0;  ///< number of MTP modules, which predict tokens after the next (tokens_ahead.h); 0 or 1
  int64_t n_heads = 4;         ///< number of query heads
  int64_t n_kv_heads = 4;      ///< number of key/value heads: n_heads (MHA), 1 (MQA), or a divisor of n_heads (GQA)
  /// Elements per head. n_heads * head_dim may differ from dim. Must be updated after a change of dim or n_heads.
  int64_t head_dim = n_heads > 0 ? dim / n_heads : 0;
  /// Size of the latent from which keys and values are computed (modules/families/latent_attention.h); 0: no latent.
  int64_t kv_lora_rank = 0;
  int64_t q_lora_rank = 0;       ///< size of the latent from which queries are computed; 0: computed from the input
  int64_t qk_nope_head_dim = 0;  ///< elements of a query or key head that RoPE doesn't rotate; they come first
  int64_t qk_rope_head_dim = 0;  ///< elements of a head that RoPE rotates; in keys, all heads share them
  int64_t v_head_dim = 0;        ///< elements of a value head
  int64_t hidden_dim = 352;      ///< inner width of the feed-forward network
  int64_t n_experts = 0;         ///< number of routed experts per layer; 0: no experts
  int64_t experts_per_token = 0;
  int64_t expert_dim = 0;         ///< inner width of an expert
  int64_t shared_dim = 0;         ///< total inner width of the shared experts, computed as one network; 0: none
  int64_t dense_layers = 0;       ///< number of initial layers without experts
  int64_t expert_groups = 1;      ///< number of groups that experts are divided into
  int64_t groups_per_token = 1;   ///< number of groups from which a token's experts are selected
  bool normalize_routes = false;  ///< the weights of a token's experts are divided by their sum
  float route_scale = 1.0F;       ///< multiplies the weights of a token's experts
  int64_t context_length = 256;   ///< maximum number of positions in a sequence
  int64_t sliding_window = 0;     ///< number of positions that a layer attends to, including the current one; 0: all
  int64_t window_period = 1;      ///< layers l with (l + 1) % window_period == 0 have no window; 1: all layers have one
  float rope_theta = 10000.0F;
  float local_rope_theta = 0.0F;  ///< theta of layers with a window, without rope_scaling; 0: RoPE as in other layers
  int64_t rope_dims = 0;          ///< number of elements of a head, starting with the first, that RoPE rotates; 0: all
  float norm_eps = 1e-5F;
  RopeScaling rope_scaling{};
  bool tie_embeddings = true;    ///< the output projection is the embedding matrix
  bool other_qkv_bias = false;   ///< true if qkv_bias() differs from the family's default, as in some GLM models
  float embedding_scale = 1.0F;  ///< multiplies the embeddings
  float attention_scale = 0.0F;  ///< multiplies q · k; 0: 1 / sqrt(head_dim)
  float attention_cap = 0.0F;    ///< scaled scores s become cap · tanh(s / cap); 0: unchanged
  float residual_scale = 1.0F;   ///< multiplies the outputs of attention and feed-forward networks
  float logit_scale = 1.0F;      ///< multiplies the logits
  float logit_cap = 0.0F;        ///< logits become cap · tanh(logit / cap); 0: unchanged

  [[nodiscard]] bool qkv_bias() const { return info(family).qkv_bias != other_qkv_bias; }
  [[nodiscard]] bool latent() const { return kv_lora_rank > 0; }
  /// Returns the number of elements that latent attention caches per position and layer.
  [[nodiscard]] int64_t latent_dim() const { return kv_lora_rank + qk_rope_head_dim; }
  [[nodiscard]] int64_t query_dim() const { return n_heads * head_dim; }
  [[nodiscard]] int64_t kv_dim() const { return n_kv_heads * head_dim; }
  /// Returns the width of Wo's input: the number of elements in the outputs of all heads.
  [[nodiscard]] int64_t heads_dim() const { return latent() ? n_heads * v_head_dim : query_dim(); }
  [[nodiscard]] int64_t rotated() const { return latent() ? qk_rope_head_dim : rope_dims > 0 ? rope_dims : head_dim; }
  [[nodiscard]] bool has_window(int64_t layer) const {
    return sliding_window > 0 && (window_period == 1 || (layer + 1) % window_period != 0);
  }
  [[nodiscard]] float score_scale() const {
    return attention_scale > 0.0F ? attention_scale : 1.0F / std::sqrt(static_cast<float>(head_dim));
  }
  [[nodiscard]] bool has_experts(int64_t layer) const { return n_experts > 0 && layer >= dense_layers; }
  /// Returns true for a plain Llama, without RoPE scaling, sliding window, multipliers or features of other families.
  [[nodiscard]] bool is_plain() const;

  bool operator==(const ModelConfig&) const = default;

  /// Calls visit(name, field, ConfigField) for each field. `Self` is ModelConfig or const ModelConfig.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    using F = ConfigField;
    visit("family", self.family, F{"family", "", 0, 0, F::kLater});
    visit("vocab_size", self.vocab_size, F{"", "", 1, 1 << 22});
    visit("dim", self.dim, F{"dim", "width of the residual stream", 1, 1 << 17});
    visit("n_layers", self.n_layers, F{"layers", "number of transformer blocks", 1, 1 << 10});
    visit("n_tokens_ahead", self.n_tokens_ahead,
          F{"mtp", "multi-token prediction: 1 adds a module that predicts the token after the next", 0, 1, F::kLater});
    visit("n_heads", self.n_heads, F{"heads", "number of query heads", 1, 1 << 12});
    visit("n_kv_heads", self.n_kv_heads,
          F{"kv-heads", "number of key/value heads: fewer than --heads for GQA, 1 for MQA", 1, 1 << 12});
    visit("head_dim", self.head_dim,
          F{"head-dim", "dimension of a head, --dim / --heads unless given", 1, 1 << 17, F::kLater});
    visit("kv_lora_rank", self.kv_lora_rank,
          F{"kv-lora-rank", "latent attention: rank of keys and values", 0, 1 << 16, F::kLater});
    visit("q_lora_rank", self.q_lora_rank,
          F{"q-lora-rank", "latent attention: rank of queries; 0: full rank", 0, 1 << 16, F::kLater});
    visit("qk_nope_head_dim", self.qk_nope_head_dim,
          F{"qk-nope-head-dim", "latent attention: query elements per head without RoPE", 0, 1 << 16, F::kLater});
    visit("qk_rope_head_dim", self.qk_rope_head_dim,
          F{"qk-rope-head-dim", "latent attention: query elements per head with RoPE", 0, 1 << 16, F::kLater});
    visit("v_head_dim", self.v_head_dim,
          F{"v-head-dim", "latent attention: value elements per head", 0, 1 << 16, F::kLater});
    visit("hidden_dim", self.hidden_dim, F{"hidden-dim", "hidden dimension of the feed-forward network", 1, 1 << 20});
    visit("n_experts", self.n_experts,
          F{"experts", "number of experts per layer; 0: dense model", 0, 1 << 12, F::kLater});
    visit("experts_per_token", self.experts_per_token,
          F{"experts-per-token", "number of experts per token", 0, 1 << 8, F::kLater});
    visit("expert_dim", self.expert_dim, F{"expert-dim", "hidden dimension of an expert", 0, 1 << 20, F::kLater});
    visit("shared_dim", self.shared_dim,
          F{"shared-dim", "total hidden dimension of the shared experts; 0: none", 0, 1 << 20, F::kLater});
    visit("dense_layers", self.dense_layers,
          F{"dense-layers", "number of first layers without experts", 0, 1 << 10, F::kLater});
    visit("expert_groups", self.expert_groups, F{"expert-groups", "number of expert groups", 1, 1 << 12, F::kLater});
    visit("groups_per_token", self.groups_per_token,
          F{"groups-per-token", "number of expert groups per token", 1, 1 << 12, F::kLater});
    visit("normalize_routes", self.normalize_routes,
          F{"normalize-routes", "normalize a token's routing weights to sum to 1", 0, 0, F::kLater});
    visit("route_scale", self.route_scale, F{"route-scale", "factor of the routing weights", 1e-6, 1e6, F::kLater});
    visit("context_length", self.context_length, F{"context", "maximum sequence length in tokens", 1, 1 << 24});
    visit("sliding_window", self.sliding_window,
          F{"sliding-window", "attention window in tokens, not for llama; 0: unlimited", 0, 1 << 24, F::kLater});
    visit("window_period", self.window_period, F{"", "", 1, 1 << 10, F::kLater});
    visit("local_rope_theta", self.local_rope_theta, F{"", "", 0, 1e9, F::kLater});
    visit("rope_dims", self.rope_dims, F{"", "", 0, 1 << 17, F::kLater});
    visit("embedding_scale", self.embedding_scale, F{"", "", 1e-6, 1e6, F::kLater});
    visit("attention_scale", self.attention_scale, F{"", "", 0, 1e6, F::kLater});
    visit("attention_cap", self.attention_cap, F{"", "", 0, 1e6, F::kLater});
    visit("residual_scale", self.residual_scale, F{"", "", 1e-6, 1e6, F::kLater});
    visit("logit_scale", self.logit_scale, F{"", "", 1e-6, 1e6, F::kLater});
    visit("logit_cap", self.logit_cap, F{"", "", 0, 1e6, F::kLater});
    visit("rope_theta", self.rope_theta, F{"rope-theta", "RoPE base frequency", 1, 1e9});
    visit("norm_eps", self.norm_eps, F{"norm-eps", "epsilon of the norms", 1e-12, 1});
    visit("rope_scaling_type", self.rope_scaling.type, F{"", "", 0, 0, F::kLater});
    visit("rope_scaling_factor", self.rope_scaling.factor,
          F{"rope-scaling", "RoPE scaling factor of Llama 3; 1: off", 1, 1e6, F::kLater});
    visit("rope_scaling_low", self.rope_scaling.low_freq_factor,
          F{"rope-scaling-low", "low_freq_factor of Llama 3's RoPE scaling", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_high", self.rope_scaling.high_freq_factor,
          F{"rope-scaling-high", "high_freq_factor of Llama 3's RoPE scaling", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_context", self.rope_scaling.original_context,
          F{"rope-scaling-context", "original context of Llama 3's RoPE scaling", 1, 1 << 24, F::kLater});
    visit("rope_scaling_magnitude", self.rope_scaling.magnitude, F{"", "", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_whole_pairs", self.rope_scaling.whole_pairs, F{"", "", 0, 0, F::kLater});
    visit("rope_scaling_short", self.rope_scaling.short_factors, F{"", "", 0, 0, F::kLater});
    visit("rope_scaling_long", self.rope_scaling.long_factors, F{"", "", 0, 0, F::kLater});
    visit("tie_embeddings", self.tie_embeddings,
          F{"tie-embeddings", "share the embedding's weights with the output", 0, 0});
    visit("other_qkv_bias", self.other_qkv_bias, F{"", "", 0, 0, F::kLater});
  }
};

/// Throws Error that begins with `where` unless the configuration is valid.
void validate(const ModelConfig& config, const std::string& where);

/// Returns dim / n_heads, the default of head_dim, or 0 if there are no heads. Throws Error unless n_heads divides dim.
[[nodiscard]] int64_t even_head_dim(int64_t dim, int64_t n_heads, const std::string& where);

/// Returns the fields that differ, such as "n_heads 4 -> 8, dim 128 -> 256", or "" if none do.
[[nodiscard]] std::string describe_difference(const ModelConfig& from, const ModelConfig& to);

}  // namespace folio::core

template <>
struct fmt::formatter<folio::core::RopeScalingType> : fmt::formatter<std::string_view> {
  auto format(folio::core::RopeScalingType type, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(folio::core::kRopeScalingNames.at(static_cast<size_t>(type)),
                                                    context);
  }
};
