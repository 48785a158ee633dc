// The families of models that run here. A family is a Llama with some parts more, and with names of its own in files:
// one row of a table. Who reads, trains or runs a model asks for the parts, not for the family.
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
  bool normalizes = false;      ///< whether programs that read GGUF, which doesn't say it, take weights that sum to 1
  bool biases = false;          ///< the router and the experts' matrices have biases (gpt-oss)
  bool deepseek_keys = false;  ///< files say it, and the scale, groups, first dense layers and number of shared experts
};

/// Which factors of a ModelConfig files say.
enum class FileScales : uint8_t {
  None,
  Gemma,    ///< scores have query_pre_attn_scalar^-0.5 and a soft cap, as logits do; embeddings sqrt(dim), unsaid
  Granite,  ///< embeddings, scores, what is added to the residual stream, and logits have multipliers
};

/// Names in Hugging Face's files that differ between families: of a layer's feed-forward part, and in it.
struct HfNames {
  std::string_view attention_norm = "input_layernorm";
  std::string_view post_attention_norm = "post_attention_layernorm";  ///< where a family has it
  std::string_view ffn_norm = "post_attention_layernorm";
  std::string_view post_ffn_norm = "post_feedforward_layernorm";  ///< the same
  std::string_view ffn = "mlp";
  std::string_view router = "gate";
  std::array<std::string_view, 3> expert{"gate_proj", "up_proj", "down_proj"};  ///< W1, W3, W2
  std::string_view shared = "shared_expert";
  std::string_view n_experts = "num_experts";             ///< in config.json
  std::string_view expert_dim = "moe_intermediate_size";  ///< the same
  std::string_view qkv{};                                 ///< Wq, Wk and Wv as one matrix; empty: they are three
  std::string_view gate_up{};                             ///< W1 and W3, likewise
  bool packed_experts = false;                            ///< see HfPacked
  bool says_bias = false;                                 ///< config.json has attention_bias, which is qkv_bias,
  bool bias_varies = false;                               ///< and may differ from it: ModelConfig::other_qkv_bias
  bool ties = false;                                      ///< the output is the embedding where nothing is said
  float rotary_factor = 1.0F;                             ///< what of a head is rotated where nothing is said
};

/// The same in GGUF.
struct GgufNames {
  std::string_view ffn_norm = "ffn_norm";
  bool qkv = false;                 ///< attn_qkv is written; it is read for every family
  bool gate_up = false;             ///< ffn_up has the rows of W1 before those of W3
  bool window = false;              ///< a sliding window can be said
  bool yarn_between_pairs = false;  ///< no key says it, but models of the family have it: see RopeScaling
  int64_t layers_27b = 0;  ///< of Gemma's largest model, where llama.cpp's factor of scores is (dim / n_heads)^-0.5
};

/// How config.json says that attention has a sliding window.
enum class HfWindow : uint8_t {
  None,      ///< it cannot
  Number,    ///< sliding_window, hf_window if missing; null: none
  Optional,  ///< the same, none if missing
  Layers,    ///< the same as Number, in the layers that layer_types or max_window_layers say
  Switched,  ///< the same if use_sliding_window is true
};

struct FamilyInfo {
  Family family;
  std::string_view name;      ///< of --family, and Hugging Face's model_type
  std::string_view hf_class;  ///< Hugging Face's architecture
  std::string_view gguf;      ///< GGUF's general.architecture, and the prefix of its keys
  RopePairs pairs;            ///< in memory and in GGUF
  RopePairs hf_pairs = RopePairs::Halves;
  bool pre_norms = true;         ///< what attention and the feed-forward network read is normalized
  bool post_norms = false;       ///< and what they add to the residual stream
  bool hf_norms_less_1 = false;  ///< Hugging Face's files have the norms' weights less 1
  Gate gate = Gate::Silu;
  bool qkv_bias = false;     ///< queries, keys and values have biases
  bool output_bias = false;  ///< what attention adds has one
  bool sinks = false;        ///< each head has an attention sink: a score more, whose value is 0
  QkNorm qk_norm = QkNorm::None;
  HfWindow window = HfWindow::None;
  int64_t window_period = 1;  ///< of ModelConfig, where files don't say it
  int64_t hf_window = 4096;   ///< HfWindow::Number, where config.json doesn't say it
  int64_t hf_head_dim = 0;    ///< where config.json does not say it; 0: hidden_size / num_attention_heads
  float local_theta = 0.0F;   ///< of ModelConfig, where files don't say it
  FileScales scales = FileScales::None;
  bool caps = false;  ///< scores and logits have soft caps, always
  MixtureInfo mixture{};
  HfNames hf{};
  GgufNames gguf_names{};
};

/// The table. Of families with one GGUF architecture, and with experts or without, the first is the one that such a
/// file is read as.
[[nodiscard]] std::span<const FamilyInfo> families();
[[nodiscard]] const FamilyInfo& info(Family family);

/// The family with this name, or this GGUF architecture and experts or none. Throws Error "WHAT is NAME, but only these
/// run here: …".
[[nodiscard]] const FamilyInfo& family_named(std::string_view name, const std::string& what);
[[nodiscard]] const FamilyInfo& family_of_gguf(std::string_view architecture, bool experts, const std::string& what);

/// Throws Error: a file has a tensor that no model of the family has here. Names the part that it belongs to, if it is
/// one that models are known to have, such as experts or attention sinks.
[[noreturn]] void fail_extra_tensor(const std::string& where, std::string_view tensor, Family family);

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
