#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/error.h"
#include "experiments/32_inside/scores.h"

namespace folio::experiments {
namespace {

constexpr int64_t kT = 12, kEvery = 4;

// Returns (T, T) weights in which each position t attends to t - back only, or to position 0 if there is no t - back.
std::vector<float> looks_back(int64_t back) {
  std::vector<float> weights(kT * kT, 0.0F);
  for (int64_t t = 0; t < kT; ++t) weights[static_cast<size_t>(t * kT + std::max<int64_t>(0, t - back))] = 1.0F;
  return weights;
}

std::vector<float> equal_weights() {
  std::vector<float> weights(kT * kT, 0.0F);
  for (int64_t t = 0; t < kT; ++t) {
    for (int64_t s = 0; s <= t; ++s) weights[static_cast<size_t>(t * kT + s)] = 1.0F / static_cast<float>(t + 1);
  }
  return weights;
}

TEST(HeadScores, APreviousTokenHeadHasOneAndOthersZero) {
  EXPECT_DOUBLE_EQ(previous_token_score(looks_back(1), kT), 1.0);
  EXPECT_DOUBLE_EQ(previous_token_score(looks_back(0), kT), 0.0);
  EXPECT_NEAR(previous_token_score(looks_back(2), kT), 1.0 / (kT - 1), 1e-12);  // only t = 1 attends to t - 1
}

TEST(HeadScores, AnInductionHeadLooksBehindAnEarlierCopy) {
  EXPECT_DOUBLE_EQ(prefix_matching_score(looks_back(kEvery - 1), kT, kEvery), 1.0);
  EXPECT_DOUBLE_EQ(prefix_matching_score(looks_back(kEvery), kT, kEvery), 0.0);  // the copy, not the token after it
  EXPECT_DOUBLE_EQ(prefix_matching_score(looks_back(1), kT, kEvery), 0.0);
  // Attends to the token after the second earlier copy of the same token. Only four of the eight scored positions have
  // two earlier copies.
  EXPECT_DOUBLE_EQ(prefix_matching_score(looks_back(2 * kEvery - 1), kT, kEvery), 0.5);
}

TEST(HeadScores, EqualWeightsHaveTheScoreOfChance) {
  double before = 0.0, prefix = 0.0;
  for (int t = 1; t < kT; ++t) before += 1.0 / (t + 1) / (kT - 1);
  for (int t = kEvery; t < kT; ++t) prefix += (t < 2 * kEvery ? 1.0 : 2.0) / (t + 1) / (kT - kEvery);
  EXPECT_NEAR(previous_token_score(equal_weights(), kT), before, 1e-6);
  EXPECT_NEAR(prefix_matching_score(equal_weights(), kT, kEvery), prefix, 1e-6);
}

TEST(RepeatedTokens, APeriodHasDifferentTokensOfTheVocabulary) {
  std::vector<int32_t> vocabulary(20);
  std::iota(vocabulary.begin(), vocabulary.end(), 100);
  std::set<int32_t> firsts;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto tokens = repeated_tokens(vocabulary, 7, 17, seed);
    ASSERT_EQ(tokens.size(), 17U);
    const std::set<int32_t> different(tokens.begin(), tokens.end());
    EXPECT_EQ(different.size(), 7U);
    EXPECT_TRUE(*different.begin() >= 100 && *different.rbegin() < 120);
    for (size_t i = 7; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], tokens[i - 7]);
    firsts.insert(tokens[0]);
  }
  EXPECT_EQ(firsts.size(), vocabulary.size());  // P(200 draws miss any of the 20 tokens) < 0.001
  EXPECT_THROW(static_cast<void>(repeated_tokens(vocabulary, 21, 30, 1)), core::Error);
}

}  // namespace
}  // namespace folio::experiments
