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
               .qk_norm = true,
               .window = HfWindow::Switched,
               .hf_head_dim = 128},
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

const FamilyInfo& family_of_gguf(std::string_view architecture, const std::string& what) {
  return find(&FamilyInfo::gguf, architecture, what);
}

void fail_extra_tensor(const std::string& where, std::string_view tensor, Family family) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kParts{{
      {"_exps.", "experts"},  // in GGUF, and in Hugging Face's files
      {".experts.", "experts"},
      {"sinks", "attention sinks"},
      {"attn_q_norm", "norms of q and k"},
      {".q_norm.", "norms of q and k"},
      {".bias", "biases"},
  }};
  const auto part = std::ranges::find_if(kParts, [&](const auto& p) { return tensor.find(p.first) != tensor.npos; });
  if (part != kParts.end())
    fail("{}: a {} with {} ({}) is not supported here", where, family, part->second, printable(tensor));
  fail("{}: the tensor {} is not part of a {} that is supported here", where, printable(tensor), family);
}

}  // namespace folio::core
