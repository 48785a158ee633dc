// Tests core/mixtures.h: the quantization type of each tensor. tests/interop/quantize_test.py compares the types with
// llama.cpp's.
#include "core/mixtures.h"

#include <gtest/gtest.h>

#include <map>

#include "core/manifest.h"

namespace folio::core {
namespace {

// Returns the layers where a quantization mixture, such as "q4_k_m", assigns `type` to the matrices with `role`.
// Tensors outside the layers, such as the output matrix, have the layer kOutside.
std::vector<int64_t> layers_with(const ModelConfig& config, const char* mixture, Role role, DType type) {
  const auto manifest = tensor_manifest(config);
  const auto types = mixture_types(config, *find_mixture(mixture));
  EXPECT_EQ(types.size(), manifest.size());
  std::vector<int64_t> layers;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].role == role && types[i] == type) layers.push_back(manifest[i].layer);
  }
  return layers;
}

constexpr int64_t kOutside = -1;
const ModelConfig kLlama8b{.vocab_size = 128256,
                           .dim = 4096,
                           .n_layers = 32,
                           .n_heads = 32,
                           .n_kv_heads = 8,
                           .head_dim = 128,
                           .hidden_dim = 14336,
                           .tie_embeddings = false};

TEST(Mixtures, OuterAndEveryThirdLayerUseMoreBits) {
  const std::vector<int64_t> more{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};
  for (const Role role : {Role::Wv, Role::W2}) {
    EXPECT_EQ(layers_with(kLlama8b, "q4_k_m", role, DType::Q6_K), more);
    EXPECT_EQ(layers_with(kLlama8b, "q4_k_m", role, DType::Q4_K).size(), 16U);
    EXPECT_EQ(layers_with(kLlama8b, "q5_k_m", role, DType::Q6_K), more);
    EXPECT_EQ(layers_with(kLlama8b, "q6_k", role, DType::Q6_K).size(), 32U);
  }
  for (const Role role : {Role::Wq, Role::Wk, Role::Wo, Role::W1, Role::W3}) {
    EXPECT_EQ(layers_with(kLlama8b, "q4_k_m", role, DType::Q4_K).size(), 32U);
    EXPECT_EQ(layers_with(kLlama8b, "q5_k_m", role, DType::Q5_K).size(), 32U);
  }
  EXPECT_EQ(layers_with(kLlama8b, "q4_k_m", Role::AttentionNorm, DType::F32).size(), 32U);
}

TEST(Mixtures, OutputIsQ6KEvenIfTied) {
  EXPECT_EQ(layers_with(kLlama8b, "q4_k_m", Role::Output, DType::Q6_K), std::vector{kOutside});
  EXPECT_EQ(layers_with(kLlama8b, "q4_k_m", Role::TokenEmbedding, DType::Q4_K), std::vector{kOutside});
  ModelConfig tied = kLlama8b;
  tied.tie_embeddings = true;
  EXPECT_EQ(layers_with(tied, "q4_k_m", Role::TokenEmbedding, DType::Q6_K), std::vector{kOutside});
}

TEST(Mixtures, RowsOfPartialBlocksUseOtherTypes) {
  ModelConfig c{.vocab_size = 10, .dim = 96, .n_layers = 1, .n_heads = 3, .n_kv_heads = 3, .hidden_dim = 48};
  c.head_dim = 32;
  const std::map<std::string, DType> instead{{"q4_k_m", DType::Q5_0}, {"q5_k_m", DType::Q5_1}, {"q6_k", DType::Q8_0}};
  for (const auto& [name, type] : instead) {
    EXPECT_EQ(layers_with(c, name.c_str(), Role::Wq, type), std::vector<int64_t>{0});
    EXPECT_EQ(layers_with(c, name.c_str(), Role::Wv, DType::Q8_0), std::vector<int64_t>{0});  // Q8_0 replaces Q6_K
    EXPECT_EQ(layers_with(c, name.c_str(), Role::TokenEmbedding, DType::Q8_0), std::vector{kOutside});
    EXPECT_EQ(layers_with(c, name.c_str(), Role::W2, DType::F16), std::vector<int64_t>{0});
  }
}

TEST(Mixtures, GroupedValuesOf80LayersUseMoreBits) {
  ModelConfig c = kLlama8b;
  c.n_layers = 80;
  EXPECT_EQ(layers_with(c, "q4_k_m", Role::Wv, DType::Q5_K).size(), 40U);
  EXPECT_TRUE(layers_with(c, "q4_k_m", Role::Wk, DType::Q5_K).empty());
  c.n_kv_heads = c.n_heads;
  EXPECT_TRUE(layers_with(c, "q4_k_m", Role::Wv, DType::Q5_K).empty());
  c.family = Family::Qwen2;
  EXPECT_EQ(layers_with(c, "q4_k_m", Role::Wv, DType::Q5_K).size(), 40U);
}

}  // namespace
}  // namespace folio::core
