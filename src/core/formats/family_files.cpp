#include "core/formats/family_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.h"

namespace folio::core {
namespace {

constexpr std::array kHfFamilies{
    HfFamily{.family = Family::Llama, .whole_heads = true},
    HfFamily{.family = Family::Mistral, .window = HfWindow::Listed},
    HfFamily{.family = Family::Qwen2, .window = HfWindow::Layers, .window_switch = true},
    HfFamily{.family = Family::Qwen3, .window = HfWindow::Layers, .window_switch = true, .head_dim = 128},
    HfFamily{.family = Family::Mixtral,
             .window = HfWindow::Optional,
             .rope_theta = 1e6F,
             .ffn = "block_sparse_moe",
             .expert = {"w1", "w3", "w2"},
             .n_experts = "num_local_experts",
             .expert_dim = "intermediate_size"},
    HfFamily{.family = Family::Qwen2Moe, .window = HfWindow::Even, .window_switch = true},
    HfFamily{.family = Family::Qwen3Moe, .window_switch = true},
    HfFamily{.family = Family::Olmoe, .expert_dim = "intermediate_size"},
    HfFamily{.family = Family::Dots1, .window = HfWindow::Layers},
    HfFamily{.family = Family::Glm4Moe, .attention_bias = true},
    HfFamily{.family = Family::Glm4MoeLite, .ffn_types = true},
    HfFamily{.family = Family::Youtu, .ties = true},
    HfFamily{.family = Family::Gemma2,
             .norms_stored_minus_1 = true,
             .whole_heads = true,
             .head_dim = 256,
             .ties = true,
             .ffn_norm = "pre_feedforward_layernorm"},
    HfFamily{.family = Family::Gemma3,
             .architecture = "Gemma3ForCausalLM",
             .norms_stored_minus_1 = true,
             .whole_heads = true,
             .rope_theta = 1e6F,
             .head_dim = 256,
             .ties = true,
             .ffn_norm = "pre_feedforward_layernorm"},
    HfFamily{.family = Family::Phi3, .window = HfWindow::Optional, .qkv = "qkv_proj", .gate_up = "gate_up_proj"},
    HfFamily{.family = Family::Glm,
             .pairs = RopePairs::Adjacent,
             .head_dim = 128,
             .attention_bias = true,
             .gate_up = "gate_up_proj"},
    HfFamily{.family = Family::Glm4,
             .pairs = RopePairs::Adjacent,
             .head_dim = 128,
             .attention_bias = true,
             .post_attention_norm = "post_self_attn_layernorm",
             .post_ffn_norm = "post_mlp_layernorm",
             .gate_up = "gate_up_proj"},
    HfFamily{.family = Family::GptOss,
             .window_size = 128,
             .rope_theta = 150000.0F,
             .head_dim = 64,
             .attention_bias = true,
             .rope_parameters = true,
             .router = "router",
             .expert = {"gate_up_proj", "gate_up_proj", "down_proj"},
             .n_experts = "num_local_experts",
             .expert_dim = "intermediate_size",
             .packed_experts = true},
};

constexpr std::array kGgufFamilies{
    GgufFamily{.family = Family::Mistral, .architecture = "llama"},
    GgufFamily{.family = Family::Mixtral, .architecture = "llama"},
    GgufFamily{.family = Family::Glm4Moe, .ffn_norm = "post_attention_norm", .ahead = true},
    GgufFamily{.family = Family::Gemma2, .window = true, .window_size = 4096, .layers_27b = 46},
    GgufFamily{.family = Family::Gemma3, .architecture = "gemma3", .window = true, .layers_27b = 62},
    GgufFamily{.family = Family::Phi3, .qkv = true, .gate_up = true, .window = true},
    GgufFamily{.family = Family::Glm, .architecture = "chatglm", .gate_up = true},
    GgufFamily{.family = Family::Glm4, .gate_up = true},
    GgufFamily{.family = Family::GptOss,
               .architecture = "gpt-oss",
               .ffn_norm = "post_attention_norm",
               .window = true,
               .window_size = -1,
               .yarn_between_pairs = true},
};

template <typename Row, size_t n>
Row row_of(const std::array<Row, n>& table, Family family) {
  const auto* const found = std::ranges::find(table, family, &Row::family);
  return found == table.end() ? Row{.family = family} : *found;
}

}  // namespace

HfFamily hf_family(Family family) {
  HfFamily row = row_of(kHfFamilies, family);
  if (info(family).latent) row.pairs = RopePairs::Adjacent;
  if (info(family).mixture.deepseek) {
    row.shared = "shared_experts";
    row.n_experts = "n_routed_experts";
  }
  return row;
}

GgufFamily gguf_family(Family family) {
  GgufFamily row = row_of(kGgufFamilies, family);
  if (info(family).latent) row.architecture = "deepseek2";
  row.ahead = row.ahead || info(family).latent;
  return row;
}

std::string hf_architecture(Family family) {
  if (const auto own = hf_family(family).architecture; !own.empty()) return std::string(own);
  std::string name;
  bool begins = true;
  for (const char c : info(family).name) {
    if (c != '_') name.push_back(begins ? static_cast<char>(std::toupper(c)) : c);
    begins = c == '_';
  }
  return name + "ForCausalLM";
}

std::string gguf_architecture(Family family) {
  if (const auto own = gguf_family(family).architecture; !own.empty()) return std::string(own);
  std::string name(info(family).name);
  std::erase(name, '_');
  return name;
}

const FamilyInfo& family_of_gguf(std::string_view architecture, bool experts, RouterScore score,
                                 const std::string& what) {
  std::vector<std::string> known;
  const FamilyInfo* first = nullptr;
  for (const FamilyInfo& family : families()) {
    const std::string own = gguf_architecture(family.family);
    if (own == architecture && family.mixture.none != experts) {
      if (family.mixture.score == score) return family;
      if (first == nullptr) first = &family;
    }
    if (std::ranges::find(known, own) == known.end()) known.push_back(own);
  }
  if (first != nullptr) return *first;
  require(std::ranges::find(known, architecture) == known.end(), "{} is {} {} experts, which is not supported", what,
          architecture, experts ? "with" : "without");
  fail("{} is {}, which is not supported; supported: {}", what, printable(architecture), fmt::join(known, ", "));
}

void fail_extra_tensor(const std::string& where, std::string_view tensor, Family family) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kParts{{
      {"_shexp.", "shared experts"},  // (part of a tensor name in GGUF or Hugging Face files, feature)
      {".shared_expert", "shared experts"},
      {"exp_probs_b", "a bias for the selection of experts"},
      {"e_score_correction_bias", "a bias for the selection of experts"},
      {"_exps.", "experts"},
      {".experts.", "experts"},
      {"sinks", "attention sinks"},
      {"attn_kv_a_", "latent attention"},
      {".kv_a_", "latent attention"},
      {"attn_q_norm", "norms of q and k"},
      {".q_norm.", "norms of q and k"},
      {".bias", "biases"},
  }};
  const auto part = std::ranges::find_if(kParts, [&](const auto& p) { return tensor.find(p.first) != tensor.npos; });
  const bool known = part != kParts.end() && part->second == "experts" && !info(family).mixture.none;
  require(!known, "{}: tensor {} matches no expert of the model", where, printable(tensor));
  if (part != kParts.end())
    fail("{}: {} models with {} ({}) are not supported", where, family, part->second, printable(tensor));
  fail("{}: unexpected tensor {} for the family {}", where, printable(tensor), family);
}

void require_storable(const ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  const auto require_only = [&](const char* name, float value, bool storable, float only) {
    require(storable || value == only, "{} is {}, but files of the family {} can only store {}", name, value,
            family.name, only);
  };
  const bool gemma = family.scales == Scales::Gemma, granite = family.scales == Scales::Granite;
  require_only("embedding_scale", c.embedding_scale, granite, gemma ? std::sqrt(static_cast<float>(c.dim)) : 1.0F);
  const bool yarn = c.latent() && c.rope_scaling.active() && c.rope_scaling.type == RopeScalingType::Yarn;
  require_only("attention_scale", c.attention_scale, gemma || granite || yarn, 0.0F);
  require_only("residual_scale", c.residual_scale, granite, 1.0F);
  require_only("logit_scale", c.logit_scale, granite, 1.0F);
  require_only("attention_cap", c.attention_cap, family.caps, 0.0F);
  require_only("logit_cap", c.logit_cap, gemma, 0.0F);
  require_only("local_rope_theta", c.local_rope_theta, family.local_theta > 0.0F, 0.0F);
  require_only("rope_dims", static_cast<float>(c.rope_dims), family.rotary_factor != 1.0F, 0.0F);
}

}  // namespace folio::core
