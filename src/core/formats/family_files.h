// How files name and store what the families have: Hugging Face's directories (config.json, safetensors) and GGUF. The
// tables in family_files.cpp list only where a family differs from the rule, which is each field's default here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/families.h"

namespace folio::core {

/// How config.json specifies a sliding window, in families that may have one.
enum class HfWindow : uint8_t {
  Number,    ///< sliding_window, HfFamily::window_size if missing; null: no window
  Optional,  ///< the same, no window if missing
  Layers,    ///< the same as Number, in the layers that layer_types or max_window_layers specify
  Switched,  ///< the same if use_sliding_window is true
};

struct HfFamily {
  Family family;
  std::string_view architecture{};      ///< default: the name in camel case, qwen2_moe: Qwen2MoeForCausalLM
  RopePairs pairs = RopePairs::Halves;  ///< order of the rows of Wq and Wk
  bool norms_less_1 = false;            ///< norms are stored as weight - 1
  HfWindow window = HfWindow::Number;
  int64_t window_size = 4096;
  int64_t head_dim = 0;          ///< where config.json lacks it; 0: hidden_size / num_attention_heads
  bool attention_bias = false;   ///< config.json has this key, which is ModelConfig::qkv_bias()
  bool ties = false;             ///< default of tie_word_embeddings
  bool rope_parameters = false;  ///< config.json must have them: transformers scales rotations by default

  std::string_view post_attention_norm = "post_attention_layernorm";  ///< where a family has it
  std::string_view ffn_norm = "post_attention_layernorm";
  std::string_view post_ffn_norm = "post_feedforward_layernorm";  ///< where a family has it
  std::string_view ffn = "mlp";
  std::string_view qkv{};      ///< Wq, Wk and Wv as one matrix; empty: they are three
  std::string_view gate_up{};  ///< W1 and W3, likewise

  std::string_view router = "gate";
  std::array<std::string_view, 3> expert{"gate_proj", "up_proj", "down_proj"};  ///< W1, W3, W2
  std::string_view shared = "shared_expert";
  std::string_view n_experts = "num_experts";             ///< key of config.json
  std::string_view expert_dim = "moe_intermediate_size";  ///< the same
  bool packed_experts = false;                            ///< see HfPacked
};

struct GgufFamily {
  Family family;
  std::string_view architecture{};  ///< general.architecture and prefix of keys; default: the name without "_"
  std::string_view ffn_norm = "ffn_norm";
  bool qkv = false;                 ///< attn_qkv is written; it is read for every family
  bool gate_up = false;             ///< ffn_up has the rows of W1 before those of W3
  bool window = false;              ///< has keys for a sliding window
  bool yarn_between_pairs = false;  ///< RopeScaling::whole_pairs is false, for which there is no key
  int64_t layers_27b = 0;           ///< of Gemma's largest model, where llama.cpp scales scores by (dim / n_heads)^-0.5
};

[[nodiscard]] const HfFamily& hf_family(Family family);
[[nodiscard]] const GgufFamily& gguf_family(Family family);

[[nodiscard]] std::string hf_architecture(Family family);    ///< "LlamaForCausalLM"
[[nodiscard]] std::string gguf_architecture(Family family);  ///< "llama"

/// The family of this GGUF architecture with experts or without, the first in families() if there are several. Throws
/// Error "WHAT is ARCHITECTURE, but only these run here: …".
[[nodiscard]] const FamilyInfo& family_of_gguf(std::string_view architecture, bool experts, const std::string& what);

/// Throws Error: a file has a tensor that no model of the family has here. Names the part that it belongs to, if it is
/// one that models are known to have, such as experts or attention sinks.
[[noreturn]] void fail_extra_tensor(const std::string& where, std::string_view tensor, Family family);

}  // namespace folio::core
