// Tests attention features that Llama lacks: biases, query and key norms, wide heads, sliding windows, latents.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "modules/families/attention.h"
#include "modules/families/latent_attention.h"
#include "modules/families/parts.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/mixtures.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

using core::Family;

std::vector<core::ModelConfig> configs() {
  const core::ModelConfig grouped{
      .vocab_size = 7, .dim = 8, .n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .hidden_dim = 6, .context_length = 12};
  std::vector<core::ModelConfig> all;
  for (const Family family : {Family::Llama, Family::Mistral, Family::Qwen2, Family::Qwen3}) {
    for (const int64_t head_dim : {2, 6}) {
      for (const int64_t window : {0, 1, 4}) {
        core::ModelConfig c = grouped;
        c.family = family;
        c.head_dim = head_dim;
        c.sliding_window = window;
        if (window == 0 || core::info(family).sliding_window) all.push_back(c);
      }
    }
  }
  for (const int64_t window : {0, 4}) {  // gpt-oss, which has attention sinks and an output bias
    core::ModelConfig c = grouped;
    c.family = Family::GptOss;
    c.sliding_window = window;
    c.n_experts = c.experts_per_token = 2;
    c.expert_dim = 3;
    c.normalize_routes = true;
    all.push_back(c);
  }
  return all;
}

// Returns two configurations with latent attention. The second also has a query latent, of rank 4, and a score scale.
std::vector<core::ModelConfig> latent_configs() {
  std::vector<core::ModelConfig> all;
  for (const int64_t query_rank : {0, 4}) {
    core::ModelConfig c{.family = Family::Youtu,
                        .vocab_size = 7,
                        .dim = 8,
                        .n_layers = 2,
                        .n_heads = 3,
                        .hidden_dim = 6,
                        .context_length = 12,
                        .attention_scale = query_rank == 0 ? 0.0F : 0.6F};
    core::test::add_latent(c, {.kv_rank = 6, .query_rank = query_rank, .nope = 3, .rope = 4, .value = 5});
    all.push_back(c);
  }
  return all;
}

std::string name_of(const core::ModelConfig& c) {
  return fmt::format("{} with heads of {} and a window of {}", c.family, c.head_dim, c.sliding_window);
}

template <typename Attention = nn::FamilyAttention>
Attention attention_of(const core::ModelConfig& c, bool written_out, double scale = 0.35) {
  auto attention = in_double(Attention(c, nn::FamilyParts().rope(c)), scale);
  attention->written_out = written_out;
  return attention;
}

template <typename Attention>
void expect_attention_gradients(const std::vector<core::ModelConfig>& all, double scale) {
  for (const core::ModelConfig& c : all) {
    for (const bool written_out : {true, false}) {
      auto attention = attention_of<Attention>(c, written_out, scale);
      const auto x = randn({2, 5, c.dim});
      SCOPED_TRACE(name_of(c));
      expect_gradients([&] { return attention->forward(x); }, leaves(x, *attention));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Families, GradientsOfAttentionMatchDifferences) {
  expect_attention_gradients<nn::FamilyAttention>(configs(), 0.35);
  expect_attention_gradients<nn::LatentAttention>(latent_configs(), 0.5);
}

TEST(Families, FormulaAndKernelAgree) {
  for (const core::ModelConfig& c : configs()) {
    auto attention = attention_of(c, true);
    const auto x = randn({2, 9, c.dim});
    const auto formula = attention->forward(x);
    attention->written_out = false;
    // The formula and the kernel sum over dim, head_dim, positions and heads in different orders, so results differ by
    // a few eps for each term.
    const double terms = static_cast<double>(c.dim + c.head_dim + 9 + c.query_dim());
    EXPECT_LT(largest(attention->forward(x) - formula), 4 * kEps * terms * (1 + largest(formula))) << name_of(c);
  }
}

// For both the formula and the kernel, packed sequences equal separate ones, and attention is causal.
TEST(Families, LatentAttentionIsCausalInBothForms) {
  for (const core::ModelConfig& c : latent_configs()) {
    auto attention = attention_of<nn::LatentAttention>(c, true, 0.5);
    const auto x = randn({2, 9, c.dim});
    const auto formula = attention->forward(x);
    const auto starts = torch::tensor({0, 0, 0, 0, 4, 4, 4, 4, 4}, torch::kLong).expand({2, 9});
    const auto packed = attention->forward(x, starts);
    attention->written_out = false;
    const double error = 4 * kEps * static_cast<double>(c.dim + c.head_dim + c.kv_lora_rank + 9 + c.heads_dim());
    EXPECT_LT(largest(attention->forward(x) - formula), error * (1 + largest(formula)));
    EXPECT_LT(largest(attention->forward(x, starts) - packed), error * (1 + largest(packed)));
    EXPECT_LT(largest(attention->forward(x.narrow(1, 0, 4)) - formula.narrow(1, 0, 4)), error * (1 + largest(formula)));
    EXPECT_LT(largest(attention->forward(x.narrow(1, 4, 5)) - packed.narrow(1, 4, 5)), error * (1 + largest(packed)));
    EXPECT_GT(largest(packed - formula), 1e-3);
  }
}

TEST(Families, PositionsAttendToTheirWindow) {
  constexpr int64_t T = 10;
  for (const core::ModelConfig& c : configs()) {
    for (const bool written_out : {true, false}) {
      auto attention = attention_of(c, written_out);
      const auto x = randn({1, T, c.dim});
      const auto y = attention->forward(x);
      for (int64_t changed = 0; changed < T; ++changed) {
        auto other = x.clone();
        other.select(1, changed).normal_();
        const auto z = attention->forward(other);
        for (int64_t t = 0; t < T; ++t) {
          const bool sees = t >= changed && (c.sliding_window == 0 || t - changed < c.sliding_window);
          EXPECT_EQ(torch::equal(z.select(1, t), y.select(1, t)), !sees)
              << name_of(c) << ": position " << t << " after a change at " << changed;
        }
      }
    }
  }
}

TEST(Families, ParametersAreInTheManifestAndTrained) {
  std::vector<core::ModelConfig> all = configs();
  std::ranges::copy(mixture_configs(), std::back_inserter(all));
  std::ranges::copy(latent_configs(), std::back_inserter(all));
  for (const core::ModelConfig& c : all) {
    torch::manual_seed(1);
    nn::Llama model = nn::family_llama(c);
    const auto tokens = torch::randint(c.vocab_size, {8, 12}, torch::kLong);
    model->loss(tokens, tokens.roll(-1, 1)).backward();
    auto parameters = model->named_parameters();
    const auto manifest = core::tensor_manifest(c);
    EXPECT_EQ(parameters.size(), manifest.size()) << name_of(c);
    int64_t count = 0;
    for (const core::TensorSpec& spec : manifest) {
      torch::Tensor* p = parameters.find(spec.module_name);
      ASSERT_NE(p, nullptr) << spec.module_name;
      EXPECT_EQ(p->sizes().vec(), spec.shape) << spec.module_name;
      count += p->numel();
      using core::Role;
      EXPECT_EQ(p->requires_grad(), spec.role != Role::SelectionBias) << spec.module_name;
      if (!p->requires_grad()) continue;
      // With a window of 1, the softmax of a single score is constant, so queries and keys have no gradient.
      const std::set<Role> scores{Role::Wq, Role::Wk, Role::Bq, Role::Bk, Role::QueryNorm, Role::KeyNorm};
      if (c.sliding_window == 1 && scores.contains(spec.role)) continue;
      EXPECT_GT(p->grad().abs().max().item<double>(), 0.0) << name_of(c) << ": " << spec.module_name;
      if (!spec.module_name.ends_with(".bias")) continue;
      EXPECT_EQ(p->abs().max().item<double>(), 0.0) << spec.module_name;
    }
    EXPECT_EQ(count, core::parameter_count(c)) << name_of(c);
  }
}

}  // namespace
}  // namespace folio::test
