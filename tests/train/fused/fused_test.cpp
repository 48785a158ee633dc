// Tests the fused modules: gradients equal central differences in double, and outputs and gradients equal those of the
// plain modules, which are the reference.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/core/model_shapes.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"
#include "tests/train/fused/fused_llama.h"
#include "train/fused/loops.h"
#include "train/fused/parts.h"

namespace folio::test {
namespace {

namespace fused = train::fused;

struct Case {
  std::string name;
  core::ModelConfig config;
  double dropout = 0.0;
};

core::ModelConfig shape(int64_t kv_heads, int64_t context, bool tied) {
  return {.vocab_size = 11,
          .dim = 20,
          .n_layers = 2,
          .n_heads = 2,
          .n_kv_heads = kv_heads,
          .head_dim = 10,
          .hidden_dim = 28,
          .context_length = context,
          .tie_embeddings = tied};
}

// Returns the test cases. Their contexts (5, 33, 37) and head dimension (10) are not multiples of the fused kernels'
// block sizes, 16 and 32.
std::vector<Case> cases() {
  Case windowed{"Window", shape(1, 37, true)};
  windowed.config.family = core::Family::Mistral;
  windowed.config.sliding_window = 7;
  Case experts{"Experts", shape(1, 5, true)};
  core::test::add_experts(experts.config, core::Family::Mixtral, 3, 7);
  Case dropped = experts;
  dropped.name = "ExpertsDropout";
  dropped.dropout = 0.3;
  return {experts,
          dropped,
          {"Heads", shape(2, 33, true)},
          {"Grouped", shape(1, 5, false)},
          {"Dropout", shape(1, 33, true), 0.3},
          windowed};
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Fused : public testing::TestWithParam<Case> {};
// Compares fused with plain modules. Dropout is off, since plain modules would draw other masks.
class FusedAgainstPlain : public Fused {};

std::vector<Case> cases_without_dropout() {
  auto all = cases();
  std::erase_if(all, [](const Case& c) { return c.dropout > 0; });
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Fused, testing::ValuesIn(cases()), testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(All, FusedAgainstPlain, testing::ValuesIn(cases_without_dropout()),
                         testing::PrintToStringParamName());

/// Returns the model with parameters far from their initial values, so that no part of it is nearly linear.
nn::Llama with_weights(nn::Llama model, torch::ScalarType type) {
  torch::manual_seed(5);
  model->to(type);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) {
    parameter.copy_(torch::randn(parameter.sizes(), torch::kDouble) * (parameter.dim() < 2 ? 1.0 : 0.3));
  }
  return model;
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).to(torch::kDouble).norm() / b.to(torch::kDouble).norm()).item<double>();
}

struct Result {
  torch::Tensor loss;
  std::vector<torch::Tensor> gradients;
};
Result run(nn::Llama& model, const Window& t) {
  torch::manual_seed(7);  // the same dropout masks in each call
  auto loss = model->loss(t.inputs, t.targets);
  return {loss.detach(), torch::autograd::grad({loss}, model->parameters())};
}

void expect_equal(const Result& actual, const Result& expected) {
  EXPECT_TRUE(torch::equal(actual.loss, expected.loss));
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_TRUE(torch::equal(actual.gradients[i], expected.gradients[i])) << i;
  }
}

TEST_P(Fused, GradientsMatchCentralDifferences) {
  auto model = with_weights(fused_llama(GetParam().config, {.dropout = GetParam().dropout}), torch::kDouble);
  const Window t = window_of(GetParam().config, 2, GetParam().config.context_length);
  const auto loss = [&] {
    torch::manual_seed(7);  // the same dropout masks in each call
    return model->loss(t.inputs, t.targets);
  };
  expect_gradients(loss, model->parameters(), 24);
}

// Expects losses and gradients to agree within a relative 1e-13. They are computed in double, where rounding errors are
// smaller than that, so a larger difference is an error in a formula.
void expect_equal(nn::Llama by_hand, nn::Llama plain, const core::ModelConfig& config) {
  const Window t = window_of(config, 3, config.context_length);
  by_hand = with_weights(by_hand, torch::kDouble);
  plain = with_weights(plain, torch::kDouble);
  const Result actual = run(by_hand, t), expected = run(plain, t);
  EXPECT_LE(distance(actual.loss, expected.loss), 1e-13);
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_LE(distance(actual.gradients[i], expected.gradients[i]), 1e-13) << plain->named_parameters().keys()[i];
  }
}

TEST_P(FusedAgainstPlain, MatchesThePlainForm) {
  expect_equal(fused_llama(GetParam().config), nn::family_llama(GetParam().config), GetParam().config);
}

// Expects that under BF16 autocast, errors of the fused modules' gradients are at most 1.5 times those of the plain
// modules. Errors are differences from the gradients of `exact`, in double.
void expect_as_near_in_bfloat16(nn::Llama by_hand, nn::Llama plain, nn::Llama exact, const core::ModelConfig& config) {
  const Window t = window_of(config, 3, config.context_length);
  exact = with_weights(exact, torch::kDouble);
  by_hand = with_weights(by_hand, torch::kFloat);
  plain = with_weights(plain, torch::kFloat);
  const Result truth = run(exact, t);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Result actual = run(by_hand, t), other = run(plain, t);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  for (size_t i = 0; i < truth.gradients.size(); ++i) {
    EXPECT_LE(distance(actual.gradients[i], truth.gradients[i]), 1.5 * distance(other.gradients[i], truth.gradients[i]))
        << plain->named_parameters().keys()[i];
  }
}

TEST_P(FusedAgainstPlain, Bfloat16ErrorMatchesThePlainForm) {
  const core::ModelConfig& config = GetParam().config;
  expect_as_near_in_bfloat16(fused_llama(config), nn::family_llama(config), nn::family_llama(config), config);
}

struct ReluNetwork : torch::nn::Module {  // with SwiGLU's parameter names
  explicit ReluNetwork(int64_t dim)
      : w1(register_module("w1", nn::Linear(dim, 8))), w2(register_module("w2", nn::Linear(8, dim))) {}
  torch::Tensor forward(const torch::Tensor& x) { return w2->forward(torch::relu(w1->forward(x))); }
  nn::Linear w1, w2;
};
template <typename Base>
struct OtherNetwork : Base {
  template <typename... Args>
  explicit OtherNetwork(bool is_gate, Args... args) : Base(args...), is_gate(is_gate) {}
  [[nodiscard]] torch::nn::AnyModule feed_forward(const core::ModelConfig& c, int64_t /*layer*/) const override {
    if (!is_gate) return torch::nn::AnyModule(std::make_shared<ReluNetwork>(c.dim));
    return torch::nn::AnyModule(nn::SwiGLU(c.dim, c.hidden_dim, nn::Linears(), "ffn",
                                           [](const auto& z, const auto& up) { return torch::relu(z) * up; }));
  }
  bool is_gate;
};

TEST(FusedForm, CallsACustomFeedForward) {
  const core::ModelConfig config = cases().front().config;
  const fused::Fusion all{.blocks = true, .ends = true};
  for (const bool is_gate : {false, true}) {
    const auto by_hand = [&](double dropout) {
      return nn::Llama(
          config, std::make_shared<OtherNetwork<fused::FusedParts>>(is_gate, nn::PartOptions{.dropout = dropout}, all));
    };
    const auto plain = [&] { return nn::Llama(config, std::make_shared<OtherNetwork<nn::FamilyParts>>(is_gate)); };
    expect_equal(by_hand(0.0), plain(), config);
    expect_as_near_in_bfloat16(by_hand(1e-12), plain(), plain(), config);  // dropout is on, but drops no element
  }
}

TEST_P(Fused, RecomputationIsBitExact) {
  const Window t = window_of(GetParam().config, 3, GetParam().config.context_length);
  auto kept = with_weights(fused_llama(GetParam().config, {.dropout = GetParam().dropout}), torch::kFloat);
  auto recomputed = with_weights(fused_llama(GetParam().config, {.dropout = GetParam().dropout}, true), torch::kFloat);
  expect_equal(run(recomputed, t), run(kept, t));
}

TEST(FusedForm, UsesUpdatedWeights) {
  const core::ModelConfig config = shape(1, 5, true);
  auto by_hand = with_weights(fused_llama(config), torch::kFloat);
  auto plain = with_weights(nn::family_llama(config), torch::kFloat);
  const Window t = window_of(config, 3, config.context_length);
  run(by_hand, t);
  const torch::NoGradGuard no_grad;
  for (auto* model : {&by_hand, &plain}) {
    for (auto& parameter : (*model)->parameters()) parameter.mul_(0.5);
  }
  EXPECT_LE(distance(by_hand->loss(t.inputs, t.targets), plain->loss(t.inputs, t.targets)), 1e-6);
}

TEST(FusedForm, EvaluatesWithoutDropout) {
  const core::ModelConfig config = shape(1, 5, true);
  auto by_hand = with_weights(fused_llama(config, {.dropout = 0.5}), torch::kFloat);
  auto plain = with_weights(nn::family_llama(config, {.dropout = 0.5}), torch::kFloat);
  by_hand->eval();
  plain->eval();
  const Window t = window_of(config, 3, config.context_length);
  EXPECT_LE(distance(by_hand->loss(t.inputs, t.targets), plain->loss(t.inputs, t.targets)), 1e-6);
}

// Dropout is on, but drops no element, so that the fused form scales the embeddings itself.
TEST(FusedForm, ScalesEmbeddingsAndLogits) {
  core::ModelConfig config = shape(1, 5, true);
  config.family = core::Family::Granite;
  config.embedding_scale = 3.0F;
  for (const float logit_scale : {1.0F, 0.5F}) {
    config.logit_scale = logit_scale;
    ASSERT_TRUE(fused::can_be_fused(config));
    expect_equal(fused_llama(config, {.dropout = 1e-15}), nn::family_llama(config), config);
  }
}

// Tests an output head that is so large that its logits are computed in several chunks.
TEST(FusedForm, ComputesLargeHeadsInChunks) {
  torch::manual_seed(8);
  constexpr int64_t kRows = 2200, kClasses = 8192, kWidth = 4;
  const auto leaf = [](std::vector<int64_t> sizes) { return torch::randn(sizes, torch::kDouble).requires_grad_(); };
  const auto x = leaf({kRows, kWidth}), weight = leaf({kWidth}), head = leaf({kClasses, kWidth});
  const auto targets = torch::randint(kClasses, {kRows});
  fused::Operand operand;
  const auto actual = fused::linear_cross_entropy(x, weight, 1e-5, head, targets, operand);
  const auto normed = x * torch::rsqrt(x.square().mean(-1, true) + 1e-5) * weight;
  const auto expected = torch::cross_entropy_loss(torch::linear(normed, head), targets);
  EXPECT_LE(distance(actual, expected), 1e-12);
  // A factor of the loss, as for gradient accumulation, must also scale the gradients.
  const auto gradients = torch::autograd::grad({actual * 0.5}, {x, weight, head});
  const auto plain = torch::autograd::grad({expected * 0.5}, {x, weight, head});
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_LE(distance(gradients[i], plain[i]), 1e-12) << i;
}

TEST(FusedForm, RejectsTargetsOutsideTheVocabulary) {
  const core::ModelConfig config = shape(1, 5, true);
  auto model = fused_llama(config);
  const Window t = window_of(config, 3, config.context_length);
  expect_error([&] { model->loss(t.inputs, t.targets + config.vocab_size); }, {"[0, 11)"});
}

// The fraction of kept elements may differ from 0.8 by five standard deviations of the binomial distribution.
TEST(FusedDropout, DropsTheFractionAndKeepsTheMean) {
  torch::manual_seed(1);
  const auto y = fused::dropout(torch::ones({1000, 100}), 0.2);
  const double kept = (y != 0).to(torch::kDouble).mean().item<double>();
  EXPECT_NEAR(kept, 0.8, 5 * std::sqrt(0.16 / 1e5));
  EXPECT_TRUE(((y == 0) | (y == 1.25)).all().item<bool>());
  // In each row and column, about the same fraction is dropped, and neighboring elements are dropped independently.
  const auto m = (y != 0).to(torch::kDouble) - 0.8;
  for (const int64_t axis : {0, 1}) {
    EXPECT_LE(m.mean(axis).abs().max().item<double>(), 5.5 * std::sqrt(0.16 / (axis == 0 ? 1000 : 100)));
    const auto size = m.size(axis) - 1;
    EXPECT_LE((m.narrow(axis, 0, size) * m.narrow(axis, 1, size)).mean().abs().item<double>(),
              5 * 0.16 / std::sqrt(1e5));
  }
}

TEST(FusedDropout, MasksDifferPerCallAndRepeatWithTheSeed) {
  const auto draw = [] { return fused::dropout(torch::ones({10, 50}), 0.5); };
  torch::manual_seed(1);
  const auto first = draw(), second = draw();
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(draw(), first));
  EXPECT_FALSE(torch::equal(first, second));
}

TEST(FusedLoops, InstructionSetsUseTheirOwnLoops) {
  using core::Isa;
  const auto isas = core::supported_isas();
  const auto here = [&](Isa isa) { return std::find(isas.begin(), isas.end(), isa) != isas.end(); };
  const auto loops = [](Isa isa) { return &fused::loops_for(isa); };
  if (here(Isa::Avx512Vnni)) {
    EXPECT_EQ(loops(Isa::Avx512Vnni), loops(Isa::Avx512));
  }
  if (here(Isa::Avx512Bf16)) {
    EXPECT_NE(loops(Isa::Avx512Bf16), loops(Isa::Avx512Vnni));
  }
}

TEST(FusedDropout, DropsAlmostEverythingJustBelowOne) {
  for (const double probability : {1.0 - 1e-10, 1.0 - 1e-16}) {
    EXPECT_EQ(fused::make_dropout(probability, 1, 2).threshold, 0xFFFFFFFFU) << probability;
  }
  EXPECT_EQ(fused::make_dropout(0.5, 1, 2).threshold, 0x80000000U);
}

}  // namespace
}  // namespace folio::test
