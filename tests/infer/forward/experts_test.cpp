// Tests the forward pass with experts on special models: unused experts are not read, a row with NaNs affects only
// itself, and all rows may use the same experts. The outputs of experts are tested in forward_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "infer/ranks/local.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using core::Role;
using test::same_bits;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

core::ModelConfig experts_config() { return test::expert_shapes()[1].config; }  // 3 of 20 experts, and a shared one

// Returns a random model after change(role, values) has edited the values of each tensor.
template <typename Change>
core::StoredModel changed_model(Change&& change) {
  core::Weights weights = test::random_weights(experts_config(), 5);
  const auto manifest = core::tensor_manifest(weights.config);
  for (size_t i = 0; i < manifest.size(); ++i) change(manifest[i].role, weights.tensors[i]);
  return test::model_from(weights);
}

TEST(Experts, UnselectedExpertsAreNotRead) {
  const auto n_experts = static_cast<size_t>(experts_config().n_experts);
  const auto n_taken = static_cast<size_t>(experts_config().experts_per_token);
  const auto equal_scores = [](Role role, std::vector<float>& numbers) {
    if (role == Role::Router) std::ranges::fill(numbers, 0.0F);
  };
  const core::StoredModel good = changed_model(equal_scores);
  const core::StoredModel poisoned = changed_model([&](Role role, std::vector<float>& numbers) {
    equal_scores(role, numbers);
    if (role != Role::ExpertW1 && role != Role::ExpertW3 && role != Role::ExpertW2) return;
    const auto first = static_cast<ptrdiff_t>(numbers.size() / n_experts * n_taken);
    std::fill(numbers.begin() + first, numbers.end(), kNan);
  });
  const auto text = test::random_tokens(100, 3, experts_config().vocab_size);
  const auto expected = test::alone(good, text);
  ASSERT_TRUE(std::ranges::all_of(expected, [](float v) { return std::isfinite(v); }));
  for (const size_t n_threads : {1U, 2U, 3U}) {
    EXPECT_TRUE(same_bits(test::alone(poisoned, text, n_threads), expected)) << n_threads << " threads";
  }
  ShardedCpu shards(3, {.n_threads = 3}, core::memory_nodes());
  Runner runner(poisoned, shards, {});
  EXPECT_TRUE(same_bits(test::run(runner, test::rows_of(runner.cache().add_sequence(), text)), expected));
}

TEST(Experts, NaNRowsAffectOnlyThemselves) {
  constexpr int32_t kBad = 3;
  const auto dim = static_cast<ptrdiff_t>(experts_config().dim);
  const core::StoredModel model = changed_model([&](Role role, std::vector<float>& numbers) {
    if (role == Role::TokenEmbedding) std::fill_n(numbers.begin() + kBad * dim, dim, kNan);
    if (role == Role::OutputNorm) std::ranges::fill(numbers, 1.0F);
  });
  auto text = test::random_tokens(40, 3, experts_config().vocab_size);
  std::ranges::replace(text, kBad, kBad + 1);
  const auto expected = test::alone(model, text);
  const auto vocab = static_cast<size_t>(experts_config().vocab_size);
  const auto is_other = [&](size_t i) { return i % vocab != kBad; };  // kBad's logit is NaN, since embeddings are tied
  const auto check = [&](Machine& machine) {
    Runner runner(model, machine, {});
    auto rows = test::rows_of(runner.cache().add_sequence(), text);
    const auto bad = test::rows_of(runner.cache().add_sequence(), std::vector<int32_t>(30, kBad));
    rows.insert(rows.begin() + 20, bad.begin(), bad.end());
    auto got = test::run(runner, rows);
    const auto of_bad = std::span(got).subspan(20 * vocab, bad.size() * vocab);
    EXPECT_TRUE(std::ranges::all_of(of_bad, [](float v) { return std::isnan(v); }));
    got.erase(got.begin() + static_cast<ptrdiff_t>(20 * vocab),
              got.begin() + static_cast<ptrdiff_t>((20 + bad.size()) * vocab));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (is_other(i)) {
        ASSERT_EQ(got[i], expected[i]) << i;
      }
    }
  };
  Cpu one({.n_threads = 1}), two({.n_threads = 2});
  ShardedCpu shards(3, {.n_threads = 3}, core::memory_nodes());
  check(one);
  check(two);
  check(shards);
}

// All router scores are equal, so all rows of a step select the same experts. Single rows must give the same results.
TEST(Experts, RowsOfOneExpertMatchSingleRows) {
  for (const float score : {0.0F, kNan, std::numeric_limits<float>::infinity()}) {
    const core::StoredModel model = changed_model([&](Role role, std::vector<float>& numbers) {
      if (role == Role::Router) std::ranges::fill(numbers, score);
    });
    const auto text = test::random_tokens(96, 4, experts_config().vocab_size);
    const auto expected = test::alone(model, text);
    Cpu cpu({.n_threads = 2});
    Runner runner(model, cpu, {.max_positions = 1000});
    std::vector<Row> rows;
    for (size_t s = 0; s < 2; ++s) {
      const auto more = test::rows_of(runner.cache().add_sequence(), text);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    const auto got = test::run(runner, rows);
    EXPECT_TRUE(same_bits(std::span(got).first(expected.size()), expected)) << score;
    EXPECT_TRUE(same_bits(std::span(got).last(expected.size()), expected)) << score;
    const SequenceId sequence = runner.cache().add_sequence();
    const auto vocab = static_cast<size_t>(experts_config().vocab_size);
    for (size_t i = 0; i < 8; ++i) {
      const auto one =
          test::run(runner, test::rows_of(sequence, std::span(text).subspan(i, 1), static_cast<int64_t>(i)));
      EXPECT_TRUE(same_bits(one, std::span(expected).subspan(i * vocab, vocab))) << score << ", position " << i;
    }
  }
}

}  // namespace
}  // namespace folio::infer
