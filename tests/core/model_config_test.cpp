// Tests core/model_config.h and core/manifest.h: errors name the violated limit, and a manifest lists each tensor once.
#include "core/model_config.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "core/formats/family_files.h"
#include "core/manifest.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

const ModelConfig kTiny{.vocab_size = 66};
const ModelConfig kUntied{.vocab_size = 32000,
                          .dim = 288,
                          .n_layers = 6,
                          .n_heads = 6,
                          .n_kv_heads = 6,
                          .hidden_dim = 768,
                          .tie_embeddings = false};
const ModelConfig kGrouped{.vocab_size = 128256,
                           .dim = 2048,
                           .n_layers = 16,
                           .n_heads = 32,
                           .n_kv_heads = 8,
                           .hidden_dim = 8192,
                           .context_length = 131072,
                           .rope_theta = 500000.0F};
const ModelConfig kQwen2{.family = Family::Qwen2, .vocab_size = 31, .n_kv_heads = 2};
const ModelConfig kQwen3{
    .family = Family::Qwen3, .vocab_size = 31, .dim = 24, .n_heads = 4, .n_kv_heads = 2, .head_dim = 34};
const ModelConfig kMixtral{.family = Family::Mixtral,
                           .vocab_size = 31,
                           .n_experts = 6,
                           .experts_per_token = 2,
                           .expert_dim = 40,
                           .normalize_routes = true};
const ModelConfig kQwen2Moe{.family = Family::Qwen2Moe,
                            .vocab_size = 31,
                            .n_experts = 5,
                            .experts_per_token = 5,
                            .expert_dim = 24,
                            .shared_dim = 48,
                            .dense_layers = 1};
const ModelConfig kDots1{.family = Family::Dots1,
                         .vocab_size = 31,
                         .n_experts = 8,
                         .experts_per_token = 3,
                         .expert_dim = 24,
                         .shared_dim = 48,
                         .dense_layers = 2,
                         .expert_groups = 4,
                         .groups_per_token = 2,
                         .route_scale = 2.5F};
const ModelConfig kGptOss{.family = Family::GptOss,
                          .vocab_size = 201088,
                          .dim = 2880,
                          .n_layers = 24,
                          .n_heads = 64,
                          .n_kv_heads = 8,
                          .head_dim = 64,
                          .hidden_dim = 2880,
                          .n_experts = 32,
                          .experts_per_token = 4,
                          .expert_dim = 2880,
                          .normalize_routes = true,
                          .context_length = 131072,
                          .sliding_window = 128,
                          .window_period = 2,
                          .tie_embeddings = false};
const ModelConfig kDeepseekV3{.family = Family::DeepseekV3,
                              .vocab_size = 129280,
                              .dim = 7168,
                              .n_layers = 61,
                              .n_heads = 128,
                              .n_kv_heads = 128,
                              .head_dim = 192,
                              .kv_lora_rank = 512,
                              .q_lora_rank = 1536,
                              .qk_nope_head_dim = 128,
                              .qk_rope_head_dim = 64,
                              .v_head_dim = 128,
                              .hidden_dim = 18432,
                              .n_experts = 256,
                              .experts_per_token = 8,
                              .expert_dim = 2048,
                              .shared_dim = 2048,
                              .dense_layers = 3,
                              .expert_groups = 8,
                              .groups_per_token = 4,
                              .normalize_routes = true,
                              .route_scale = 2.5F,
                              .tie_embeddings = false};
const std::vector<ModelConfig> kAll{kTiny,    kUntied,   kGrouped, kQwen2,  kQwen3,
                                    kMixtral, kQwen2Moe, kDots1,   kGptOss, kDeepseekV3};

TEST(ModelConfig, AcceptsCommonShapes) {
  for (const ModelConfig& c : kAll) EXPECT_NO_THROW(validate(c, "here"));
}

TEST(ModelConfig, HeadDimDefaultsToDimOverHeads) {
  EXPECT_EQ(kUntied.head_dim, 48);
  EXPECT_EQ(kQwen3.head_dim, 34);
  EXPECT_EQ(kQwen3.query_dim(), 136);
  EXPECT_EQ(even_head_dim(288, 6, "here"), 48);
  EXPECT_ERROR(even_head_dim(288, 5, "here"), "here: dim 288 is not a multiple of n_heads 5");
  EXPECT_EQ(even_head_dim(288, 0, "here"), 0);
}

TEST(ModelConfig, OnlySomeFamiliesHaveAWindow) {
  ModelConfig c = kTiny;
  c.sliding_window = 8;
  EXPECT_ERROR(validate(c, "here"), "here: sliding_window is 8, but the family llama does not support it");
  c.family = Family::Mistral;
  EXPECT_NO_THROW(validate(c, "here"));
}

TEST(ModelConfig, OnlySomeFamiliesHaveOptionalBiases) {
  ModelConfig c = kTiny;
  c.other_qkv_bias = true;
  EXPECT_ERROR(validate(c, "here"), "a llama never has biases of queries, keys and values");
  c.family = Family::Qwen2;
  EXPECT_ERROR(validate(c, "here"), "a qwen2 always has biases of queries, keys and values");
  c.family = Family::Glm4;
  EXPECT_NO_THROW(validate(c, "here"));
  EXPECT_TRUE(c.qkv_bias());
  c.family = Family::Glm;
  EXPECT_FALSE(c.qkv_bias());
}

TEST(Families, FindsFamiliesByName) {
  for (const FamilyInfo& family : families()) {
    EXPECT_EQ(&info(family.family), &family);
    EXPECT_EQ(&family_named(family.name, "it"), &family);
    const FamilyInfo& read_as =
        family_of_gguf(gguf_architecture(family.family), !family.mixture.none, family.mixture.score, "it");
    EXPECT_EQ(read_as.pairs, family.pairs);
    EXPECT_EQ(read_as.mixture.none, family.mixture.none);
  }
  EXPECT_EQ(family_of_gguf("llama", false, RouterScore::Softmax, "it").family, Family::Llama);
  EXPECT_EQ(family_of_gguf("llama", true, RouterScore::Softmax, "it").family, Family::Mixtral);
  EXPECT_ERROR(family_named("mamba", "the family"),
               "the family is mamba, which is not supported; supported: llama, mistral, qwen2, qwen3, mixtral");
  EXPECT_ERROR(family_of_gguf("mamba", false, RouterScore::Softmax, "the architecture"),
               "the architecture is mamba, which is not supported; supported: llama, qwen2, qwen3, qwen2moe");
  EXPECT_ERROR(family_of_gguf("qwen3", true, RouterScore::Softmax, "the architecture"),
               "the architecture is qwen3 with experts, which is not supported");
  EXPECT_ERROR(family_of_gguf("qwen3moe", false, RouterScore::Softmax, "the architecture"),
               "the architecture is qwen3moe without experts, which is not supported");
}

// Expects validate() to reject `c` after `change`, with an error that contains `part`.
void expect_error(ModelConfig c, const std::string& part, void (*change)(ModelConfig&)) {
  change(c);
  EXPECT_ERROR(validate(c, "here"), part);
}

TEST(ModelConfig, ValidatesExpertCounts) {
  using C = ModelConfig;
  expect_error(kTiny, "here: the family llama has no experts, but n_experts is 4", [](C& c) { c.n_experts = 4; });
  expect_error(kMixtral, "the family mixtral has its experts, but n_experts is 0", [](C& c) { c.n_experts = 0; });
  expect_error(kMixtral, "experts_per_token is 0, but must be in [1, 6]", [](C& c) { c.experts_per_token = 0; });
  expect_error(kMixtral, "experts_per_token is 7, but must be in [1, 6]", [](C& c) { c.experts_per_token = 7; });
  expect_error(kMixtral, "expert_dim is 0", [](C& c) { c.expert_dim = 0; });
  expect_error(kMixtral, "the family mixtral has experts in all layers", [](C& c) { c.dense_layers = 1; });
  expect_error(kMixtral, "the family mixtral supports neither", [](C& c) { c.route_scale = 2.0F; });
  expect_error(kQwen2Moe, "dense_layers is 4, but must be less than the 4 layers", [](C& c) { c.dense_layers = 4; });
  expect_error(kDots1, "8 experts cannot be divided into 3 equal groups", [](C& c) { c.expert_groups = 3; });
  expect_error(kDots1, "cannot select 3 experts from 5 of 4 groups of 2 experts", [](C& c) { c.groups_per_token = 5; });
  expect_error(kDots1, "cannot select 3 experts from 1 of 4 groups of 2 experts", [](C& c) { c.groups_per_token = 1; });
  expect_error(kDots1, "route_scale is -1", [](C& c) { c.route_scale = -1.0F; });
}

TEST(ModelConfig, ErrorsNameIntegersOutOfRange) {
  ModelConfig::visit_fields(kTiny, [](const std::string& name, auto value, const ConfigField& limits) {
    if constexpr (std::is_same_v<decltype(value), int64_t>) {
      for (const int64_t wrong : {int64_t{0}, int64_t{-1}, int64_t{1} << 40U, std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()}) {
        if (static_cast<double>(wrong) >= limits.low && static_cast<double>(wrong) <= limits.high) continue;
        ModelConfig c = kTiny;
        ModelConfig::visit_fields(c, [&](const std::string& other, auto& field, auto&&) {
          if constexpr (std::is_same_v<std::decay_t<decltype(field)>, int64_t>) {
            if (other == name) field = wrong;
          }
        });
        EXPECT_ERROR(validate(c, "here"), "here: " + name + " is " + std::to_string(wrong));
      }
    }
  });
}

TEST(ModelConfig, HeadsMustDivideEvenly) {
  using C = ModelConfig;
  expect_error(kTiny, "n_heads 4 is not a multiple of n_kv_heads 3", [](C& c) { c.n_kv_heads = 3; });
  expect_error(kTiny, "n_heads 4 is not a multiple of n_kv_heads 8", [](C& c) { c.n_kv_heads = 8; });
  expect_error(kTiny, "head_dim is 3, but RoPE rotates pairs, so it must be even", [](C& c) { c.head_dim = 3; });
}

TEST(ModelConfig, RejectsRealNumbersOutOfRange) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float wrong : {kNan, kInf, -kInf, 0.0F, 0.5F, -10000.0F}) {
    ModelConfig c = kTiny;
    c.rope_theta = wrong;
    EXPECT_ERROR(validate(c, "here"), "here: rope_theta is");
  }
  for (const float wrong : {kNan, kInf, -kInf, 0.0F, 1.5F, -1e-5F}) {
    ModelConfig c = kTiny;
    c.norm_eps = wrong;
    EXPECT_ERROR(validate(c, "here"), "here: norm_eps is");
  }
}

TEST(ModelConfig, TheLargestAllowedShapeDoesNotOverflow) {
  const ModelConfig c{.vocab_size = 1 << 22,
                      .dim = 1 << 17,
                      .n_layers = 1 << 10,
                      .n_heads = 1 << 12,
                      .n_kv_heads = 1 << 12,
                      .hidden_dim = 1 << 20,
                      .context_length = 1 << 24,
                      .tie_embeddings = false};
  EXPECT_NO_THROW(validate(c, "here"));
  const double d = c.dim;
  const double expected = 2.0 * c.vocab_size * d + 1024.0 * (4 * d * d + 3 * d * c.hidden_dim + 2 * d) + d;
  EXPECT_DOUBLE_EQ(static_cast<double>(parameter_count(c)), expected);
}

TEST(ModelConfig, ParameterCountOfPublishedModels) {
  // kGrouped has the shape of Llama 3.2 1B. kUntied with tied embeddings has the shape of stories15M.
  EXPECT_EQ(parameter_count(kGrouped), 1235814400);
  EXPECT_EQ(parameter_count(kGptOss), 20914757184);  // gpt-oss-20b
  EXPECT_EQ(parameter_count(kDeepseekV3), 671026419200);
  ModelConfig stories = kUntied;
  stories.tie_embeddings = true;
  EXPECT_EQ(parameter_count(stories), 15191712);
}

TEST(ModelConfig, DifferencesShowBothValues) {
  ModelConfig other = kTiny;
  EXPECT_EQ(describe_difference(kTiny, other), "");
  EXPECT_EQ(kTiny, other);
  other.n_heads = 8;
  EXPECT_EQ(describe_difference(kTiny, other), "n_heads 4 -> 8");
  other.dim = 256;
  other.norm_eps = 1e-6F;
  other.tie_embeddings = false;
  EXPECT_EQ(describe_difference(kTiny, other),
            "dim 128 -> 256, n_heads 4 -> 8, norm_eps 1e-05 -> 1e-06, tie_embeddings true -> false");
}

TEST(ModelConfig, VisitsEveryField) {
  // If visit_fields missed a field, two configurations that differ only in that field would compare as equal.
  size_t n_fields = 0;
  const ModelConfig c;
  ModelConfig::visit_fields(c, [&](const std::string& name, auto&&, auto&&) {
    ++n_fields;
    ModelConfig changed;
    ModelConfig::visit_fields(changed, [&](const std::string& other, auto& value, auto&&) {
      using Value = std::decay_t<decltype(value)>;
      if (other == name) value = static_cast<Value>(value == Value{});
    });
    EXPECT_NE(changed, ModelConfig{}) << name;
    EXPECT_TRUE(test::contains(describe_difference(ModelConfig{}, changed), name + " "));
  });
  // These bindings fail to compile if a field is added or removed. visit_fields visits the fields of rope_scaling, not
  // the struct itself, hence the -1.
  [[maybe_unused]] const auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18,
                                f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35,
                                f36, f37, f38] = c;
  [[maybe_unused]] const auto& [s0, s1, s2, s3, s4, s5, s6, s7, s8] = c.rope_scaling;
  EXPECT_EQ(n_fields, 39U - 1 + 9);
}

TEST(Manifest, NamesAreUniqueInEachFormat) {
  for (const ModelConfig& c : kAll) {
    const auto manifest = tensor_manifest(c);
    std::set<std::string> gguf;
    std::set<std::string> hf;
    std::set<std::string> module;
    for (const TensorSpec& spec : manifest) {
      gguf.insert(spec.gguf_name);
      hf.insert(fmt::format("{} {}", spec.hf_name, spec.hf_packed.first));  // parts of a packed tensor share hf_name
      module.insert(spec.module_name);
      if (spec.role == Role::SelectionBias) continue;   // hf_name ends with "_bias", not with ".bias"
      if (spec.role == Role::AttentionSinks) continue;  // hf_name ends with "sinks", not with ".weight"
      if (!spec.hf_packed.name.empty()) continue;       // hf_name ends with "_proj" or "_proj_bias"
      for (const char* kind : {".weight", ".bias"}) {
        EXPECT_EQ(spec.gguf_name.ends_with(kind), spec.hf_name.ends_with(kind));
        EXPECT_EQ(spec.gguf_name.ends_with(kind), spec.module_name.ends_with(kind));
      }
    }
    EXPECT_EQ(gguf.size(), manifest.size());
    EXPECT_EQ(hf.size(), manifest.size());
    EXPECT_EQ(module.size(), manifest.size());
  }
}

TEST(ModelConfig, LatentAttentionNeedsAllItsDimensions) {
  using C = ModelConfig;
  expect_error(kDeepseekV3, "has latent attention, but kv_lora_rank is 0", [](C& c) { c.kv_lora_rank = 0; });
  expect_error(kDeepseekV3, "v_head_dim 0, but each must be at least 1", [](C& c) { c.v_head_dim = 0; });
  expect_error(kDeepseekV3, "must be even", [](C& c) { c.qk_rope_head_dim = 63; });
  expect_error(kDeepseekV3, "expected 192", [](C& c) { c.head_dim = 128; });
  expect_error(kDeepseekV3, "one per query head, 128", [](C& c) { c.n_kv_heads = 1; });
  expect_error(kTiny, "the family llama has no latent attention", [](C& c) { c.v_head_dim = 2; });
  expect_error(kDeepseekV3, "does not normalize routing weights", [](C& c) { c.family = Family::DeepseekV2; });
  ModelConfig full_rank = kDeepseekV3;
  full_rank.q_lora_rank = 0;
  EXPECT_NO_THROW(validate(full_rank, "here"));
}

}  // namespace
}  // namespace folio::core
