// Tests infer/explain on random models and all kinds of machines: logit attributions sum to the logit, interventions
// equal edited weights, and the runner's KV cache and other sequences don't change. tests/apps/files/explain_test.py
// compares attention weights and other values with transformers.
#include "infer/explain/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "data/tokenizers/char_tokenizer.h"
#include "tests/infer/machines.h"
#include "tests/infer/support.h"

namespace folio::infer::explain {
namespace {

using test::MachineKind;
using test::random_tokens;
using test::rows_of;
using test::run;
using test::RunnerOn;
using test::same_bits;

data::CharTokenizer tokenizer() { return data::CharTokenizer::from_text("abc", "test"); }

std::vector<float> logits_of(const Explanation& explanation) { return explanation.activations.at("logits").values; }
std::vector<float> logits_of(Runner& runner, const std::vector<int32_t>& prompt, const Experiment& experiment = {}) {
  return logits_of(explain(runner, tokenizer(), prompt, {.experiment = experiment, .keep_activations = true}));
}

class Explain : public ::testing::TestWithParam<MachineKind> {
 protected:
  core::StoredModel model_ = test::random_model(test::small_shapes()[1].config);
  std::vector<int32_t> prompt_ = random_tokens(45, 3, model_.config.vocab_size);
};

INSTANTIATE_TEST_SUITE_P(Machines, Explain, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

TEST_P(Explain, LeavesCacheAndOtherSequencesAsTheyWere) {
  const auto text = random_tokens(60, 1, model_.config.vocab_size);
  const auto expected = test::logits_on(GetParam(), model_, text);
  RunnerOn runner(GetParam(), model_, {.n_threads = 1}, {.max_positions = 128});
  BlockManager& cache = runner.cache();
  const auto a = cache.add_sequence();
  run(runner, rows_of(a, std::span(text).first(40)));
  cache.remember(a, std::span(text).first(40));
  const Experiment all{.ablate = {"0.1"}, .mean = {"1"}, .patch = {"1.residual"}, .from = text};
  const Explanation explanation = explain(runner, tokenizer(), prompt_, {.experiment = all});
  EXPECT_EQ(explanation.json["interventions"]["rows"].size(), prompt_.size());
  const auto unchanged = [&] {
    EXPECT_EQ(cache.blocks_in_use(), 2);
    EXPECT_EQ(cache.find_prefix(prompt_).length, 0);
    EXPECT_EQ(cache.find_prefix(std::span(text).first(40)).length, 32);
  };
  unchanged();
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), {})), "0 tokens, expected 1 to 100");
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), random_tokens(101, 1, 37))),
               "101 tokens, expected 1 to 100; shorten it");
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), {1, 37})), "token 37 is outside the vocabulary of 37");
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), random_tokens(90, 1, 37))), "full");
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), {1}, {.token = 37})), "token 37 is outside");
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), {1}, {.adapter = 5})), "adapter 5 is not loaded");
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), {1}, {.experiment = {.ablate = {"2.ffn"}}})),
               "layer 2 does not exist, expected 0 to 1");
  unchanged();
  const auto rest = run(runner, rows_of(a, std::span(text).subspan(40), 40));
  EXPECT_TRUE(same_bits(rest, std::span(expected).last(rest.size())));
}

TEST_P(Explain, SharesAddUpToTheLogit) {
  RunnerOn runner(GetParam(), model_);
  const Explanation explanation = explain(runner, tokenizer(), prompt_);
  for (const auto& row : explanation.json["attribution"]) {
    double sum = row["embedding"];
    double size = std::abs(sum);
    const auto add = [&](const nlohmann::ordered_json& shares) {
      for (const double share : shares) {
        sum += share;
        size += std::abs(share);
      }
    };
    for (const auto& layer : row["heads"]) add(layer);
    add(row["attention_bias"]);
    add(row["ffn"]);
    EXPECT_NEAR(sum + row["remainder"].get<double>(), row["logit"].get<double>(), 1e-12 * size);
    EXPECT_LT(std::abs(row["remainder"].get<double>()), 1e-3 * size);
  }
}

TEST_P(Explain, AnAblatedHeadEqualsAModelWithoutItsColumnsOfWo) {
  RunnerOn runner(GetParam(), model_);
  const auto ablated = logits_of(runner, prompt_, {.ablate = {"1.4"}});
  core::Weights weights = core::to_weights(model_);
  const core::ModelConfig& c = model_.config;
  std::vector<float>& wo = test::values_of(weights, core::Role::Wo, 1);
  for (int64_t row = 0; row < c.dim; ++row) {
    std::fill_n(wo.begin() + row * c.query_dim() + 4 * c.head_dim, c.head_dim, 0.0F);
  }
  const core::StoredModel without = test::model_from(weights);
  RunnerOn other(GetParam(), without);
  EXPECT_TRUE(same_bits(ablated, logits_of(other, prompt_)));
  EXPECT_FALSE(same_bits(ablated, logits_of(runner, prompt_)));
}

class ExplainShape : public ::testing::TestWithParam<test::Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, ExplainShape, ::testing::ValuesIn(test::all_shapes()),
                         [](const auto& info) { return info.param.name; });

// A product's shape has the multiply-adds that the profile counts. Shapes that differ between layers are empty.
TEST_P(ExplainShape, ShapesOfProductsHaveTheCountedMultiplyAdds) {
  core::ModelConfig c = GetParam().config;
  if (c.family == core::Family::Dots1) {  // a mixture may have a single expert
    c.n_experts = c.experts_per_token = c.expert_groups = c.groups_per_token = 1;
  }
  const core::StoredModel model = test::random_model_of({.name = "", .config = c, .type = GetParam().type});
  Cpu cpu({.n_threads = 1});
  ProfiledMachine machine(cpu);
  Runner runner(model, machine);
  const auto operations = explain(runner, tokenizer(), {1, 2, 3}, {.profiled = &machine}).json["operations"];
  const std::regex product("(\\d+) × (\\d+) · \\2 × (\\d+)");
  for (const auto& operation : operations) {
    const std::string kind = operation["kind"];
    const std::string shape = operation["shape"];
    const bool varies = c.dense_layers > 0 && (kind == "gate, up" || kind == "activation" || kind == "down");
    EXPECT_EQ(shape.empty(), varies || kind == "begin" || kind == "other") << kind;
    std::smatch sizes;
    if (!std::regex_match(shape, sizes, product)) continue;
    const Work& work = machine.profile.kinds[std::ranges::find(kWorkKinds, kind) - kWorkKinds.begin()];
    const uint64_t each = std::stoull(sizes[1]) * std::stoull(sizes[2]) * std::stoull(sizes[3]);
    EXPECT_EQ(work.matrix_multiply_adds, work.operations * each) << kind;
  }
}

// Each row uses all experts, so that the step reads all weights.
TEST_P(ExplainShape, EachWeightIsCountedOnce) {
  core::ModelConfig c = GetParam().config;
  c.experts_per_token = c.n_experts;
  c.groups_per_token = c.expert_groups;
  const core::StoredModel model = test::random_model_of({.name = "", .config = c, .type = GetParam().type});
  Cpu cpu({.n_threads = 1});
  ProfiledMachine machine(cpu);
  Runner runner(model, machine);
  static_cast<void>(explain(runner, tokenizer(), {1, 2, 3}, {.profiled = &machine}));
  uint64_t bytes = 0;
  const auto manifest = core::tensor_manifest(c);
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].role == core::Role::TokenEmbedding && !c.tie_embeddings) continue;  // only some rows are read
    bytes += model.tensors[i].bytes.size();
  }
  EXPECT_EQ(machine.profile.total().weight_bytes, bytes);
}

TEST(ExplainLogits, ThatAreNotFiniteAreAnError) {
  const core::StoredModel model = test::damaged_model(test::small_shapes()[1].config);
  Cpu cpu({.n_threads = 1});
  Runner runner(model, cpu);
  EXPECT_ERROR(static_cast<void>(explain(runner, tokenizer(), {1, 2})), "a logit is not finite");
  EXPECT_EQ(runner.cache().blocks_in_use(), 0);
}

TEST(ExplainPage, ContainsNoMarkupFromTokens) {
  const core::StoredModel model = test::random_model(test::small_shapes()[1].config);
  Cpu cpu({.n_threads = 1});
  Runner runner(model, cpu);
  const Explanation explanation = explain(runner, tokenizer(), {30, 2, 31});
  EXPECT_EQ(explanation.json["vocabulary"]["30"], "<30>");  // a token that the tokenizer lacks
  const std::string page = to_html(explanation.json);
  EXPECT_EQ(page.find("<30>"), std::string::npos);
  EXPECT_NE(page.find("\\u003c30>"), std::string::npos);
  EXPECT_EQ(page.find("@DATA@"), std::string::npos);
}

}  // namespace
}  // namespace folio::infer::explain
