// The families of models that run here. A family is a Llama with more parts: one row of a table. Code that trains or
// runs a model asks for the parts, not for the family; what files call them is in formats/family_files.h.
#pragma once

#include <fmt/format.h>

#include <array>
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
  Gemma2,
  Gemma3,
  Olmo2,
  Granite,
  Phi3,
  Glm,
  Glm4,
  GptOss
};

/// Which numbers of a head RoPE turns together: (2i, 2i + 1), or (i, i + head_dim / 2).
enum class RopePairs : uint8_t { Adjacent, Halves };

/// What of the queries and keys is normalized before they are rotated: each head by itself, or all heads at once.
enum class QkNorm : uint8_t { None, Heads, All };

/// What becomes of the gate and the up-projection of a feed-forward network: silu(gate) up; the same with gelu, as tanh
/// approximates it; or with both clamped, gate sigmoid(1.702 gate) (up + 1).
enum class Gate : uint8_t { Silu, Gelu, Clamped };
inline constexpr float kGateLimit = 7.0F;  ///< of Gate::Clamped: gates are at most so large, |up| too
inline constexpr float kGateSlope = 1.702F;

/// A router's score of an expert: of all logits the softmax, or of each the sigmoid.
enum class RouterScore : uint8_t { Softmax, Sigmoid };

/// What distinguishes one mixture of experts from another. `none` is a family without experts.
struct MixtureInfo {
  bool none = true;
  RouterScore score = RouterScore::Softmax;
  bool selection_bias = false;  ///< experts are chosen by score + bias, and weighed by the score (DeepSeek-V3)
  bool shared_gate = false;     ///< the shared experts' output is multiplied by sigmoid(w · x) (Qwen 2 MoE)
  bool normalizes = false;      ///< a token's weights sum to 1 in published models
  bool biases = false;          ///< the router and the experts' matrices have biases (gpt-oss)
  bool own_width = true;        ///< expert_dim and hidden_dim may differ; the first layers may be dense
  bool deepseek = false;        ///< groups of experts, a scale of the weights, any number of shared experts
};

/// Multipliers of a ModelConfig that a family has besides the usual 1 / sqrt(head_dim) of scores.
enum class Scales : uint8_t {
  None,
  Gemma,    ///< embeddings by sqrt(dim); scores by any factor
  Granite,  ///< embeddings, scores, what is added to the residual stream, and logits
};

struct FamilyInfo {
  Family family;
  std::string_view name;       ///< of --family, and Hugging Face's model_type
  RopePairs pairs;             ///< in memory
  float rotary_factor = 1.0F;  ///< share of a head's dimensions that RoPE rotates; below 1, models may choose another
  bool pre_norms = true;       ///< what attention and the feed-forward network read is normalized
  bool post_norms = false;     ///< and what they add to the residual stream
  Gate gate = Gate::Silu;
  bool qkv_bias = false;         ///< queries, keys and values have biases
  bool qkv_bias_varies = false;  ///< models may differ from qkv_bias: ModelConfig::other_qkv_bias
  bool output_bias = false;      ///< what attention adds has one
  bool sinks = false;            ///< each head has an attention sink: a score more, whose value is 0
  QkNorm qk_norm = QkNorm::None;
  bool sliding_window = false;  ///< models may have one
  int64_t window_period = 1;    ///< default of ModelConfig
  float local_theta = 0.0F;     ///< the same
  Scales scales = Scales::None;
  bool caps = false;  ///< scores and logits have soft caps, always
  MixtureInfo mixture{};
};

/// The table.
[[nodiscard]] std::span<const FamilyInfo> families();
[[nodiscard]] const FamilyInfo& info(Family family);

/// The family with this name. Throws Error "WHAT is NAME, but only these run here: …".
[[nodiscard]] const FamilyInfo& family_named(std::string_view name, const std::string& what);

// A family in JSON is its name.
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
