// The supported model families. A table lists how each family differs from Llama, as features (FamilyInfo). Training
// and inference code checks features, never the family itself. The names used in files are in formats/family_files.h.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace folio::core {

enum class Family : uint8_t {
  Llama,
  Mistral,
  Qwen2,
  Qwen3,
  Mixtral,
  Qwen2Moe,
  Qwen3Moe,
  Olmoe,
  Dots1,
  Glm4Moe,
  DeepseekV2,
  DeepseekV3,
  Glm4MoeLite,
  Youtu,
  Gemma2,
  Gemma3,
  Olmo2,
  Granite,
  Phi3,
  Glm,
  Glm4,
  GptOss
};

/// The pairs of elements that RoPE rotates among the n rotated elements of a head: (2i, 2i + 1), or (i, i + n / 2).
enum class RopePairs : uint8_t { Adjacent, Halves };

/// How queries and keys are normalized before RoPE: not at all, each head separately, or all heads as one vector.
enum class QkNorm : uint8_t { None, Heads, All };

/// Activation of a feed-forward network: silu(gate) · up; gelu(gate) · up with the tanh approximation; or, with both
/// clamped, gate · sigmoid(1.702 gate) · (up + 1).
enum class Gate : uint8_t { Silu, Gelu, Clamped };
inline constexpr float kGateLimit = 7.0F;  ///< Gate::Clamped: upper limit of the gate, and limit of |up|
inline constexpr float kGateSlope = 1.702F;

/// How a router scores experts: softmax over all logits, or sigmoid of each logit.
enum class RouterScore : uint8_t { Softmax, Sigmoid };

/// Properties of a family's mixture of experts. `none` is true for families without experts.
struct MixtureInfo {
  bool none = true;
  RouterScore score = RouterScore::Softmax;
  bool selection_bias = false;  ///< experts are selected by score + bias, and weighted by the score (DeepSeek-V3)
  bool shared_gate = false;     ///< the shared experts' output is multiplied by sigmoid(w · x) (Qwen 2 MoE)
  bool normalizes = false;      ///< the weights of a token's experts sum to 1 in published models
  bool biases = false;          ///< the router and the experts' matrices have biases (gpt-oss)
  bool own_width = true;        ///< expert_dim and hidden_dim may differ; the first layers may be dense
  bool groups_by_max = false;   ///< a group's score is its best expert's, not the sum of its best two (DeepSeek-V2)
  bool may_normalize = true;    ///< ModelConfig::normalize_routes may be true
  bool deepseek = false;        ///< supports expert groups, a scale for the weights, and any number of shared experts
};

/// The multipliers in ModelConfig that a family uses, in addition to the usual score scale 1 / sqrt(head_dim).
enum class Scales : uint8_t {
  None,
  Gemma,    ///< embeddings are multiplied by sqrt(dim), attention scores by a configurable factor
  Granite,  ///< embeddings, attention scores, block outputs and logits are multiplied by configurable factors
};

struct FamilyInfo {
  Family family;
  std::string_view name;  ///< value of --family, and of model_type in config.json
  /// pairs that RoPE rotates; matches the order of the rows of Wq and Wk in memory (files may use the other order)
  RopePairs pairs = RopePairs::Halves;
  float rotary_factor = 1.0F;  ///< fraction of a head that RoPE rotates; models may override a value below 1
  bool pre_norms = true;       ///< inputs of attention and of the feed-forward network are normalized
  bool post_norms = false;     ///< outputs of attention and of the feed-forward network are normalized
  Gate gate = Gate::Silu;
  bool latent = false;           ///< keys and values are computed from a latent (ModelConfig::kv_lora_rank)
  bool qkv_bias = false;         ///< queries, keys and values have biases
  bool qkv_bias_varies = false;  ///< models may have the opposite of qkv_bias (ModelConfig::other_qkv_bias)
  bool output_bias = false;      ///< the attention's output projection has a bias
  bool sinks = false;            ///< each head has an attention sink: an additional score whose value vector is 0
  QkNorm qk_norm = QkNorm::None;
  bool sliding_window = false;  ///< models may have a sliding window
  int64_t window_period = 1;    ///< default; layers l with (l + 1) % window_period == 0 have no window; 1: all have one
  float local_theta = 0.0F;     ///< default RoPE theta of layers with a window; 0: RoPE as in other layers
  Scales scales = Scales::None;
  bool caps = false;  ///< attention scores and logits always have soft caps
  MixtureInfo mixture{};
};

/// Returns all families, in the order of the enum.
[[nodiscard]] std::span<const FamilyInfo> families();
[[nodiscard]] const FamilyInfo& info(Family family);

/// Returns the family with this name. Throws Error that begins with `what` and lists all families if there is none.
[[nodiscard]] const FamilyInfo& family_named(std::string_view name, const std::string& what);

// Families are stored by name in JSON.
template <typename Json>
void to_json(Json& json, Family family) {
  json = std::string(info(family).name);
}
template <typename Json>
void from_json(const Json& json, Family& family) {
  family = family_named(json.template get<std::string>(), "family").family;
}

}  // namespace folio::core

template <>
struct fmt::formatter<folio::core::Family> : fmt::formatter<std::string_view> {
  auto format(folio::core::Family family, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(folio::core::info(family).name, context);
  }
};
