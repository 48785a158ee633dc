// Names and layouts of the families' tensors and keys in Hugging Face directories (config.json, safetensors) and GGUF.
// The tables and rules in family_files.cpp list only what differs from the defaults here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/model_config.h"

namespace folio::core {

/// How config.json specifies a sliding window, for families that may have one.
enum class HfWindow : uint8_t {
  Number,    ///< value of sliding_window; null: no window; if missing: HfFamily::window_size
  Optional,  ///< like Number, but no window if sliding_window is missing
  Layers,    ///< like Number, in the layers given by layer_types, or those from max_window_layers on
  Listed,    ///< like Number, in the layers given by layer_types, or all
  Even,      ///< like Number, in the layers given by layer_types, or the even layers below max_window_layers
};

struct HfFamily {
  Family family;
  std::string_view architecture{};      ///< if empty, the name in camel case: Qwen2MoeForCausalLM for qwen2_moe
  RopePairs pairs = RopePairs::Halves;  ///< pairs that RoPE rotates; matches the row order of Wq and Wk in files
  bool norms_stored_minus_1 = false;    ///< norm weights are stored as weight - 1
  HfWindow window = HfWindow::Number;
  bool window_switch = false;  ///< there is a window only if use_sliding_window is true
  int64_t window_size = 4096;
  bool whole_heads = false;      ///< transformers requires hidden_size to be a multiple of num_attention_heads
  float rope_theta = 10000.0F;   ///< default of rope_theta
  int64_t head_dim = 0;          ///< default of head_dim; 0: hidden_size / num_attention_heads
  bool attention_bias = false;   ///< config.json has the key attention_bias, true if q, k and v have biases
  bool ties = false;             ///< default of tie_word_embeddings
  bool ffn_types = false;        ///< mlp_layer_types in config.json lists the layers with experts
  bool rope_parameters = false;  ///< config.json must have RoPE parameters, since transformers' defaults scale RoPE

  std::string_view post_attention_norm = "post_attention_layernorm";  ///< tensor name, if the family has this norm
  std::string_view ffn_norm = "post_attention_layernorm";
  std::string_view post_ffn_norm = "post_feedforward_layernorm";  ///< tensor name, if the family has this norm
  std::string_view ffn = "mlp";
  std::string_view qkv{};      ///< name of Wq, Wk and Wv as one matrix; empty: three matrices
  std::string_view gate_up{};  ///< name of W1 and W3 as one matrix; empty: two matrices

  std::string_view router = "gate";
  std::array<std::string_view, 3> expert{"gate_proj", "up_proj", "down_proj"};  ///< names of W1, W3 and W2
  std::string_view shared = "shared_expert";
  std::string_view n_experts = "num_experts";             ///< key in config.json
  std::string_view expert_dim = "moe_intermediate_size";  ///< key in config.json
  bool packed_experts = false;                            ///< one tensor has all experts, W1 and W3 interleaved
};

struct GgufFamily {
  Family family;
  std::string_view architecture{};  ///< general.architecture and prefix of keys; empty: the family's name without "_"
  std::string_view ffn_norm = "ffn_norm";
  bool qkv = false;                 ///< GGUFs have Wq, Wk and Wv fused as attn_qkv (readers accept it for all families)
  bool gate_up = false;             ///< ffn_up contains W1 followed by W3
  bool window = false;              ///< GGUFs have keys for a sliding window
  int64_t window_size = 0;          ///< llama.cpp's window if a GGUF has no key for it; 0: none; -1: it needs the key
  bool ahead = false;               ///< llama.cpp accepts GGUFs with an MTP module (ModelConfig::n_tokens_ahead)
  bool yarn_between_pairs = false;  ///< limits of YaRN's ramp aren't rounded to whole pairs (GGUF has no key for it)
  int64_t layers_27b = 0;           ///< layers of the 27B model, whose score scale is sqrt(n_heads / dim); 0: no 27B
};

[[nodiscard]] HfFamily hf_family(Family family);
[[nodiscard]] GgufFamily gguf_family(Family family);

[[nodiscard]] std::string hf_architecture(Family family);    ///< returns a name such as "LlamaForCausalLM"
[[nodiscard]] std::string gguf_architecture(Family family);  ///< returns a name such as "llama"

/// Returns the first family with this GGUF architecture that has experts (if `experts` is true) or none (if false).
/// Prefers a family whose router score is `score`. Throws Error that begins with `what` if no family matches.
[[nodiscard]] const FamilyInfo& family_of_gguf(std::string_view architecture, bool experts, RouterScore score,
                                               const std::string& what);

/// Throws Error for a tensor that no supported model of the family has. The message names the tensor and, if known, the
/// unsupported feature, such as experts or attention sinks.
[[noreturn]] void fail_extra_tensor(const std::string& where, std::string_view tensor, Family family);

/// Throws Error if a value in `config` cannot be stored in the family's files and differs from the family's default.
/// The message names the value.
void require_storable(const ModelConfig& config);

}  // namespace folio::core
