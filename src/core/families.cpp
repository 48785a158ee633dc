#include "core/families.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/error.h"

namespace folio::core {
namespace {

constexpr std::array kFamilies{
    FamilyInfo{.family = Family::Llama,
               .name = "llama",
               .hf_class = "LlamaForCausalLM",
               .gguf = "llama",
               .pairs = RopePairs::Adjacent},
    FamilyInfo{.family = Family::Mistral,
               .name = "mistral",
               .hf_class = "MistralForCausalLM",
               .gguf = "llama",
               .pairs = RopePairs::Adjacent,
               .window = HfWindow::Number},
    FamilyInfo{.family = Family::Qwen2,
               .name = "qwen2",
               .hf_class = "Qwen2ForCausalLM",
               .gguf = "qwen2",
               .pairs = RopePairs::Halves,
               .qkv_bias = true,
               .window = HfWindow::Switched},
    FamilyInfo{.family = Family::Qwen3,
               .name = "qwen3",
               .hf_class = "Qwen3ForCausalLM",
               .gguf = "qwen3",
               .pairs = RopePairs::Halves,
               .qk_norm = QkNorm::Heads,
               .window = HfWindow::Switched,
               .hf_head_dim = 128},
    FamilyInfo{.family = Family::Mixtral,
               .name = "mixtral",
               .hf_class = "MixtralForCausalLM",
               .gguf = "llama",
               .pairs = RopePairs::Adjacent,
               .window = HfWindow::Number,
               .mixture = {.none = false, .normalizes = true},
               .hf = {.ffn = "block_sparse_moe",
                      .expert = {"w1", "w3", "w2"},
                      .n_experts = "num_local_experts",
                      .expert_dim = "intermediate_size"}},
    FamilyInfo{.family = Family::Qwen2Moe,
               .name = "qwen2_moe",
               .hf_class = "Qwen2MoeForCausalLM",
               .gguf = "qwen2moe",
               .pairs = RopePairs::Halves,
               .qkv_bias = true,
               .window = HfWindow::Switched,
               .mixture = {.none = false, .shared_gate = true}},
    FamilyInfo{.family = Family::Qwen3Moe,
               .name = "qwen3_moe",
               .hf_class = "Qwen3MoeForCausalLM",
               .gguf = "qwen3moe",
               .pairs = RopePairs::Halves,
               .qk_norm = QkNorm::Heads,
               .window = HfWindow::Switched,
               .mixture = {.none = false, .normalizes = true}},
    FamilyInfo{.family = Family::Olmoe,
               .name = "olmoe",
               .hf_class = "OlmoeForCausalLM",
               .gguf = "olmoe",
               .pairs = RopePairs::Halves,
               .qk_norm = QkNorm::All,
               .mixture = {.none = false},
               .hf = {.expert_dim = "intermediate_size"}},
    FamilyInfo{.family = Family::Dots1,
               .name = "dots1",
               .hf_class = "Dots1ForCausalLM",
               .gguf = "dots1",
               .pairs = RopePairs::Halves,
               .qk_norm = QkNorm::Heads,
               .window = HfWindow::Layers,
               .mixture = {.none = false,
                           .score = RouterScore::Sigmoid,
                           .selection_bias = true,
                           .normalizes = true,
                           .deepseek_keys = true},
               .hf = {.shared = "shared_experts", .n_experts = "n_routed_experts"}},
    FamilyInfo{.family = Family::Glm4Moe,
               .name = "glm4_moe",
               .hf_class = "Glm4MoeForCausalLM",
               .gguf = "glm4moe",
               .pairs = RopePairs::Halves,
               .qkv_bias = true,
               .mixture = {.none = false,
                           .score = RouterScore::Sigmoid,
                           .selection_bias = true,
                           .normalizes = true,
                           .deepseek_keys = true},
               .hf = {.shared = "shared_experts",
                      .n_experts = "n_routed_experts",
                      .says_bias = true,
                      .bias_varies = true,
                      .rotary_factor = 0.5F},
               .gguf_names = {.ffn_norm = "post_attention_norm"}},
    FamilyInfo{.family = Family::Gemma2,
               .name = "gemma2",
               .hf_class = "Gemma2ForCausalLM",
               .gguf = "gemma2",
               .pairs = RopePairs::Halves,
               .post_norms = true,
               .hf_norms_less_1 = true,
               .gate = Gate::Gelu,
               .window = HfWindow::Number,
               .window_period = 2,
               .hf_head_dim = 256,
               .scales = FileScales::Gemma,
               .caps = true,
               .hf = {.ffn_norm = "pre_feedforward_layernorm", .ties = true},
               .gguf_names = {.window = true, .layers_27b = 46}},
    FamilyInfo{.family = Family::Gemma3,
               .name = "gemma3_text",
               .hf_class = "Gemma3ForCausalLM",
               .gguf = "gemma3",
               .pairs = RopePairs::Halves,
               .post_norms = true,
               .hf_norms_less_1 = true,
               .gate = Gate::Gelu,
               .qk_norm = QkNorm::Heads,
               .window = HfWindow::Number,
               .window_period = 6,
               .hf_head_dim = 256,
               .local_theta = 10000.0F,
               .scales = FileScales::Gemma,
               .hf = {.ffn_norm = "pre_feedforward_layernorm", .ties = true},
               .gguf_names = {.window = true, .layers_27b = 62}},
    FamilyInfo{.family = Family::Olmo2,
               .name = "olmo2",
               .hf_class = "Olmo2ForCausalLM",
               .gguf = "olmo2",
               .pairs = RopePairs::Halves,
               .pre_norms = false,
               .post_norms = true,
               .qk_norm = QkNorm::All},
    FamilyInfo{.family = Family::Granite,
               .name = "granite",
               .hf_class = "GraniteForCausalLM",
               .gguf = "granite",
               .pairs = RopePairs::Adjacent,
               .scales = FileScales::Granite},
    FamilyInfo{.family = Family::Phi3,
               .name = "phi3",
               .hf_class = "Phi3ForCausalLM",
               .gguf = "phi3",
               .pairs = RopePairs::Halves,
               .window = HfWindow::Optional,
               .hf = {.qkv = "qkv_proj", .gate_up = "gate_up_proj"},
               .gguf_names = {.qkv = true, .gate_up = true, .window = true}},
    FamilyInfo{.family = Family::Glm,
               .name = "glm",
               .hf_class = "GlmForCausalLM",
               .gguf = "chatglm",
               .pairs = RopePairs::Adjacent,
               .hf_pairs = RopePairs::Adjacent,
               .qkv_bias = true,
               .hf_head_dim = 128,
               .hf = {.gate_up = "gate_up_proj", .says_bias = true, .bias_varies = true, .rotary_factor = 0.5F},
               .gguf_names = {.gate_up = true}},
    FamilyInfo{.family = Family::Glm4,
               .name = "glm4",
               .hf_class = "Glm4ForCausalLM",
               .gguf = "glm4",
               .pairs = RopePairs::Adjacent,
               .hf_pairs = RopePairs::Adjacent,
               .post_norms = true,
               .hf_head_dim = 128,
               .hf = {.post_attention_norm = "post_self_attn_layernorm",
                      .post_ffn_norm = "post_mlp_layernorm",
                      .gate_up = "gate_up_proj",
                      .says_bias = true,
                      .bias_varies = true,
                      .rotary_factor = 0.5F},
               .gguf_names = {.gate_up = true}},
    FamilyInfo{.family = Family::GptOss,
               .name = "gpt_oss",
               .hf_class = "GptOssForCausalLM",
               .gguf = "gpt-oss",
               .pairs = RopePairs::Halves,
               .gate = Gate::Clamped,
               .qkv_bias = true,
               .output_bias = true,
               .sinks = true,
               .window = HfWindow::Number,
               .window_period = 2,
               .hf_window = 128,
               .hf_head_dim = 64,
               .mixture = {.none = false, .normalizes = true, .biases = true},
               .hf = {.router = "router",
                      .expert = {"gate_up_proj", "gate_up_proj", "down_proj"},
                      .n_experts = "num_local_experts",
                      .expert_dim = "intermediate_size",
                      .packed_experts = true,
                      .says_bias = true},
               .gguf_names = {.ffn_norm = "post_attention_norm", .window = true, .yarn_between_pairs = true}},
};

const FamilyInfo& find(std::string_view FamilyInfo::*key, std::string_view value, const std::string& what) {
  const auto found = std::ranges::find(kFamilies, value, key);
  if (found != kFamilies.end()) return *found;
  std::vector<std::string_view> known;
  for (const FamilyInfo& family : kFamilies) {
    if (std::ranges::find(known, family.*key) == known.end()) known.push_back(family.*key);
  }
  fail("{} is {}, but only these run here: {}", what, printable(value), fmt::join(known, ", "));
}

}  // namespace

std::span<const FamilyInfo> families() { return kFamilies; }

const FamilyInfo& info(Family family) { return kFamilies.at(static_cast<size_t>(family)); }

const FamilyInfo& family_named(std::string_view name, const std::string& what) {
  return find(&FamilyInfo::name, name, what);
}

const FamilyInfo& family_of_gguf(std::string_view architecture, bool experts, const std::string& what) {
  const FamilyInfo& first = find(&FamilyInfo::gguf, architecture, what);
  const auto fits = [&](const FamilyInfo& f) { return f.gguf == architecture && f.mixture.none != experts; };
  const auto found = std::ranges::find_if(kFamilies, fits);
  require(found != kFamilies.end(), "{} is {}, {} experts, which is not supported here", what, first.gguf,
          experts ? "with" : "without");
  return *found;
}

void fail_extra_tensor(const std::string& where, std::string_view tensor, Family family) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kParts{{
      {"_shexp.", "experts that all tokens take"},  // in GGUF, and in Hugging Face's files
      {".shared_expert", "experts that all tokens take"},
      {"exp_probs_b", "a bias for the selection of experts"},
      {"e_score_correction_bias", "a bias for the selection of experts"},
      {"_exps.", "experts"},
      {".experts.", "experts"},
      {"sinks", "attention sinks"},
      {"attn_q_norm", "norms of q and k"},
      {".q_norm.", "norms of q and k"},
      {".bias", "biases"},
  }};
  const auto part = std::ranges::find_if(kParts, [&](const auto& p) { return tensor.find(p.first) != tensor.npos; });
  const bool known = part != kParts.end() && part->second == "experts" && !info(family).mixture.none;
  require(!known, "{}: the tensor {} is not one of the experts that there are", where, printable(tensor));
  if (part != kParts.end())
    fail("{}: a {} with {} ({}) is not supported here", where, family, part->second, printable(tensor));
  fail("{}: the tensor {} is not part of a {} that is supported here", where, printable(tensor), family);
}

}  // namespace folio::core
