// Tests of the sampler. Most pass 2000 evenly spaced values as random numbers, so each token's fraction of the draws is
// its probability, to within one draw. The tests are deterministic.
#include <limits>
#include <set>

#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/properties/check.h"

namespace folio::exercises {
namespace {

constexpr size_t kDraws = 2000;
constexpr SamplerOptions kPlain{.temperature = 1.0F, .top_k = 0, .top_p = 1.0F, .min_p = 0.0F};

// Probabilities of five tokens, unsorted, so that order by id differs from order by probability.
const std::vector<double> kShares{0.10, 0.40, 0.05, 0.30, 0.15};

Floats logits_of(const std::vector<double>& shares) {
  Floats logits;
  for (const double share : shares) logits.push_back(static_cast<float>(std::log(share) + 1.5));
  logits.shrink_to_fit();  // exact size, so that the sanitizer detects reads past the end
  return logits;
}

// Returns each token's fraction of all draws. The last element is the fraction of invalid token ids.
Floats drawn(const SamplerOptions& options) {
  const Floats logits = logits_of(kShares);
  Floats share(logits.size() + 1, 0.0F);
  for (size_t i = 0; i < kDraws; ++i) {
    const int32_t token = sample(logits, options, (static_cast<double>(i) + 0.5) / kDraws);
    const bool is_token = token >= 0 && token < static_cast<int32_t>(logits.size());
    share[is_token ? static_cast<size_t>(token) : logits.size()] += 1.0F / kDraws;
  }
  return share;
}

// Expects each token's fraction of the draws to be proportional to its weight, to within two draws, because rounding
// may move the ends of its interval.
void expect_shares(const SamplerOptions& options, const std::vector<double>& weights, const std::string& why) {
  double sum = 0.0;
  for (const double w : weights) sum += w;
  Floats expected;
  for (const double w : weights) expected.push_back(static_cast<float>(w / sum));
  expected.push_back(0.0F);
  expect_close(drawn(options), expected, 2.0 / kDraws, "(Shares of the tokens among the draws.) " + why);
}

std::string named(const std::set<size_t>& tokens) {
  std::string text;
  for (const size_t token : tokens) text += (text.empty() ? "" : ", ") + std::to_string(token);
  return text;
}

void expect_kept(const SamplerOptions& options, const std::set<size_t>& expected, const std::string& why) {
  const Floats share = drawn(options);
  std::set<size_t> kept;
  for (size_t i = 0; i < share.size(); ++i) {
    if (share[i] > 0.0F) kept.insert(i);
  }
  if (kept == expected) return;
  ADD_FAILURE() << "Of tokens with the shares 0.10, 0.40, 0.05, 0.30, 0.15, tokens " << named(kept)
                << " were drawn, but have to be " << named(expected) << ".\n"
                << why;
}

TEST(Sampler, TemperatureZeroTakesTheLikeliest) {
  SamplerOptions options = kPlain;
  options.temperature = 0.0F;
  expect_kept(options, {1}, "At temperature 0 nothing is drawn: the token with the largest logit is taken.");
}

TEST(Sampler, TokensAreDrawnByTheirSoftmax) {
  expect_shares(kPlain, kShares,
                "A token's share is exp(logit) / sum of all exp(logit). Equal shares, shares like the logits "
                "themselves, or all for the likeliest mean that something else was drawn from.");
}

TEST(Sampler, TheTemperatureDividesTheLogits) {
  SamplerOptions options = kPlain;
  options.temperature = 0.5F;
  expect_shares(options, {0.01, 0.16, 0.0025, 0.09, 0.0225},
                "At temperature 0.5 the logits are doubled and the shares squared: the likeliest has 0.561. 0.4 is its "
                "share without the temperature, and 0.303 that of logits multiplied by 0.5.");
}

TEST(Sampler, TopKKeepsTheKLikeliest) {
  SamplerOptions options = kPlain;
  options.top_k = 3;
  expect_kept(options, {1, 3, 4}, "Top-k keeps the 3 likeliest, not the first 3 of the vocabulary.");
  options.top_k = 9;
  expect_shares(options, kShares, "There are five tokens, fewer than k: all are kept, and no others.");
}

TEST(Sampler, TopPKeepsTheTokenThatCrossesTheBorder) {
  SamplerOptions options = kPlain;
  options.top_p = 0.75F;
  expect_kept(options, {1, 3, 4},
              "0.40 + 0.30 are less than 0.75, so the third likeliest is kept: with it they have 0.85. The token that "
              "crosses the border belongs to the kept ones.");
  options.top_p = 0.1F;
  expect_kept(options, {1}, "The likeliest alone has 0.40, more than 0.1. One token is always kept.");
}

TEST(Sampler, MinPIsAShareOfTheLikeliest) {
  SamplerOptions options = kPlain;
  options.min_p = 0.3F;
  expect_kept(options, {1, 3, 4},
              "0.3 of the likeliest's 0.40 is 0.12, and 0.15 is more. min-p is no share of its own, but one of the "
              "likeliest's share.");
}

TEST(Sampler, WhatIsKeptHasSharesThatSumToOne) {
  SamplerOptions options = kPlain;
  options.top_k = 2;
  expect_shares(options, {0, 0.40, 0, 0.30, 0},
                "0.40 and 0.30 of 0.70. If one token gets all that was cut off, the shares were not divided by the sum "
                "of those that are kept.");
}

TEST(Sampler, TopPLooksAtWhatTopKKept) {
  SamplerOptions options = kPlain;
  options.top_k = 3;
  options.top_p = 0.75F;
  expect_kept(options, {1, 3},
              "Top-k keeps three tokens, with 0.85 together. Of these the first two have (0.40 + 0.30) / 0.85 = 0.82, "
              "more than 0.75. All three are kept where the shares are still those among all tokens.");
}

TEST(Sampler, FiltersComeBeforeTheTemperature) {
  SamplerOptions options = kPlain;
  options.temperature = 5.0F;
  options.top_p = 0.75F;
  expect_kept(options, {1, 3, 4},
              "Top-p looks at the shares at temperature 1. After a division by 5 they are flatter, and four tokens "
              "are needed for 0.75.");
  options.top_p = 1.0F;
  options.min_p = 0.3F;
  expect_kept(options, {1, 3, 4},
              "Min-p looks at the shares at temperature 1, too. After a division by 5 all five have more than 0.3 of "
              "the likeliest's.");
}

TEST(Sampler, TheLikeliestComesFirst) {
  const Floats logits = logits_of(kShares);
  Floats order;
  for (const double uniform : {0.2, 0.5, 0.8, 0.9, 0.99}) {
    order.push_back(static_cast<float>(sample(logits, kPlain, uniform)));
  }
  expect_close(order, {1.0F, 3.0F, 4.0F, 0.0F, 2.0F}, 0.0,
               "These tokens were drawn with the numbers 0.2, 0.5, 0.8, 0.9, 0.99. The likeliest has the line's "
               "beginning, from 0 to 0.40, and then the others by their likelihood, not by their ids.");
}

TEST(Sampler, TheLineEndsWithAToken) {
  for (const size_t n : {3, 7, 10, 49, 100, 1000}) {
    const int32_t token = sample(Floats(n, 0.0F), kPlain, 1.0 - 0x1p-53);
    if (token >= 0 && token < static_cast<int32_t>(n)) continue;
    FAIL() << "With " << n << " equal logits and a number just below 1, " << token << " was drawn, which is no token.\n"
           << "Rounded shares may sum to a little less than 1. Behind them, take the last token.";
  }
}

TEST(Sampler, MinusInfinityIsNeverDrawn) {
  for (const size_t n : {1, 3, 7, 10, 49, 100, 1000}) {
    Floats logits(n + 2, 0.0F);
    logits.front() = logits.back() = -std::numeric_limits<float>::infinity();
    for (const double uniform : {0.0, 0.5, 1.0 - 0x1p-53}) {
      const int32_t token = sample(logits, kPlain, uniform);
      if (token > 0 && token <= static_cast<int32_t>(n)) continue;
      FAIL() << "Of " << n << " equal logits between two that are -infinity, number " << token << " was drawn.\n"
             << "exp(-infinity) is 0: it has no piece of the line, and is not its end either. Leave it out.";
    }
  }
}

}  // namespace
}  // namespace folio::exercises
