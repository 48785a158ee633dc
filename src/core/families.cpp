#include "core/families.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>

#include "core/error.h"

namespace folio::core {
namespace {

constexpr MixtureInfo kDeepseekV3Experts{
    .none = false, .score = RouterScore::Sigmoid, .selection_bias = true, .normalizes = true, .deepseek = true};

constexpr std::array kFamilies{
    FamilyInfo{.family = Family::Llama, .name = "llama", .pairs = RopePairs::Adjacent},
    FamilyInfo{.family = Family::Mistral, .name = "mistral", .pairs = RopePairs::Adjacent, .sliding_window = true},
    FamilyInfo{.family = Family::Qwen2, .name = "qwen2", .qkv_bias = true, .sliding_window = true},
    FamilyInfo{.family = Family::Qwen3, .name = "qwen3", .qk_norm = QkNorm::Heads, .sliding_window = true},
    FamilyInfo{.family = Family::Mixtral,
               .name = "mixtral",
               .pairs = RopePairs::Adjacent,
               .sliding_window = true,
               .mixture = {.none = false, .normalizes = true, .own_width = false}},
    FamilyInfo{.family = Family::Qwen2Moe,
               .name = "qwen2_moe",
               .qkv_bias = true,
               .sliding_window = true,
               .mixture = {.none = false, .shared_gate = true}},
    FamilyInfo{.family = Family::Qwen3Moe,
               .name = "qwen3_moe",
               .qk_norm = QkNorm::Heads,
               .sliding_window = true,
               .mixture = {.none = false, .normalizes = true}},
    FamilyInfo{.family = Family::Olmoe,
               .name = "olmoe",
               .qk_norm = QkNorm::All,
               .mixture = {.none = false, .own_width = false}},
    FamilyInfo{.family = Family::Dots1,
               .name = "dots1",
               .qk_norm = QkNorm::Heads,
               .sliding_window = true,
               .mixture = kDeepseekV3Experts},
    FamilyInfo{.family = Family::Glm4Moe,
               .name = "glm4_moe",
               .rotary_factor = 0.5F,
               .qkv_bias = true,
               .qkv_bias_varies = true,
               .mixture = kDeepseekV3Experts},
    FamilyInfo{.family = Family::DeepseekV2,
               .name = "deepseek_v2",
               .pairs = RopePairs::Adjacent,
               .latent = true,
               .mixture = {.none = false, .groups_by_max = true, .may_normalize = false, .deepseek = true}},
    FamilyInfo{.family = Family::DeepseekV3,
               .name = "deepseek_v3",
               .pairs = RopePairs::Adjacent,
               .latent = true,
               .mixture = kDeepseekV3Experts},
    FamilyInfo{.family = Family::Glm4MoeLite,
               .name = "glm4_moe_lite",
               .pairs = RopePairs::Adjacent,
               .latent = true,
               .mixture = kDeepseekV3Experts},
    FamilyInfo{.family = Family::Youtu, .name = "youtu", .pairs = RopePairs::Adjacent, .latent = true},
    FamilyInfo{.family = Family::Gemma2,
               .name = "gemma2",
               .post_norms = true,
               .gate = Gate::Gelu,
               .sliding_window = true,
               .window_period = 2,
               .scales = Scales::Gemma,
               .caps = true},
    FamilyInfo{.family = Family::Gemma3,
               .name = "gemma3_text",
               .post_norms = true,
               .gate = Gate::Gelu,
               .qk_norm = QkNorm::Heads,
               .sliding_window = true,
               .window_period = 6,
               .local_theta = 10000.0F,
               .scales = Scales::Gemma},
    FamilyInfo{
        .family = Family::Olmo2, .name = "olmo2", .pre_norms = false, .post_norms = true, .qk_norm = QkNorm::All},
    FamilyInfo{.family = Family::Granite, .name = "granite", .pairs = RopePairs::Adjacent, .scales = Scales::Granite},
    FamilyInfo{.family = Family::Phi3, .name = "phi3", .sliding_window = true},
    FamilyInfo{.family = Family::Glm,
               .name = "glm",
               .pairs = RopePairs::Adjacent,
               .rotary_factor = 0.5F,
               .qkv_bias = true,
               .qkv_bias_varies = true},
    FamilyInfo{.family = Family::Glm4,
               .name = "glm4",
               .pairs = RopePairs::Adjacent,
               .rotary_factor = 0.5F,
               .post_norms = true,
               .qkv_bias_varies = true},
    FamilyInfo{.family = Family::GptOss,
               .name = "gpt_oss",
               .gate = Gate::Clamped,
               .qkv_bias = true,
               .output_bias = true,
               .sinks = true,
               .sliding_window = true,
               .window_period = 2,
               .mixture = {.none = false, .normalizes = true, .biases = true, .own_width = false}},
};

}  // namespace

std::span<const FamilyInfo> families() { return kFamilies; }

const FamilyInfo& info(Family family) { return kFamilies.at(static_cast<size_t>(family)); }

const FamilyInfo& family_named(std::string_view name, const std::string& what) {
  const auto* const found = std::ranges::find(kFamilies, name, &FamilyInfo::name);
  if (found != kFamilies.end()) return *found;
  fail("{} is {}, which is not supported; supported: {}", what, printable(name),
       fmt::join(kFamilies | std::views::transform(&FamilyInfo::name), ", "));
}

}  // namespace folio::core
