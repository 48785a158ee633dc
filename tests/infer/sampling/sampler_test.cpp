// Tests infer/sampling/sampler.h: filters and draws equal those of a full sort whose random number is a function of
// (seed, position), and invalid options or logits are errors.
#include "infer/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "core/random.h"
#include "infer/forms/forms.h"
#include "tests/infer/forms/support.h"
#include "tests/infer/sanitized.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Returns options with every filter off; each test enables what it needs.
SamplerOptions plain() { return {.temperature = 1.0F, .top_p = 1.0F, .seed = 11}; }

// The probabilities of tokens 0 to 4 in most tests. They aren't sorted, so ids aren't in the order of probability.
const std::vector<double> kShares{0.10, 0.40, 0.05, 0.30, 0.15};

std::vector<float> logits_of(const std::vector<double>& shares) {
  std::vector<float> logits;
  for (const double share : shares) logits.push_back(static_cast<float>(std::log(share) + 1.5));
  return logits;
}

int32_t draw(Sampler& sampler, std::vector<float> logits, int64_t position, std::span<const int32_t> history = {}) {
  return sampler.sample(logits, history, position);
}

std::vector<double> normalized(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w /= sum;
  return weights;
}

// Expects 20,000 draws to have the distribution `expected`, by Pearson's chi-square test. The statistic's mean is the
// number of degrees of freedom, its variance twice that. The limit is five standard deviations above the mean.
void expect_distribution(const SamplerOptions& options, const std::vector<double>& expected,
                         std::span<const int32_t> history = {}, std::vector<int32_t> never = {},
                         std::optional<FormMask> form = {}) {
  constexpr int kDraws = 20000;
  Sampler sampler(options, std::move(never), 0, std::move(form));
  std::vector<int> count(expected.size(), 0);
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<size_t>(draw(sampler, logits_of(kShares), i, history))];
  double chi_square = 0.0;
  double freedom = -1.0;
  for (size_t id = 0; id < expected.size(); ++id) {
    const double mean = expected[id] * kDraws;
    if (mean == 0.0) {
      EXPECT_EQ(count[id], 0) << "token " << id << " may not be drawn";
      continue;
    }
    chi_square += (count[id] - mean) * (count[id] - mean) / mean;
    freedom += 1.0;
  }
  EXPECT_LE(chi_square, freedom + 5 * std::sqrt(2 * freedom));
}

TEST(Sampler, GreedyTiesSelectTheLowestId) {
  auto options = plain();
  options.temperature = 0.0F;
  options.top_k = 3;  // filters never remove the likeliest token
  options.top_p = 0.5F;
  Sampler sampler(options, {});
  EXPECT_EQ(draw(sampler, {1, 3, 2}, 0), 1);
  EXPECT_EQ(draw(sampler, {-1, -3, -2}, 5), 0);
  EXPECT_EQ(draw(sampler, {1, 4, 4, 4}, 5), 1);
  EXPECT_EQ(draw(sampler, {2, 2}, 5), 0);
  EXPECT_EQ(draw(sampler, {-0.0F, 0.0F}, 5), 0);
  EXPECT_EQ(draw(sampler, {7}, 5), 0);
}

TEST(Sampler, DrawsFromTheSoftmax) { expect_distribution(plain(), kShares); }

// Filters ignore tokens that structured output forbids. The allowed tokens have probabilities 0.10, 0.05 and 0.15.
TEST(Sampler, FormsMaskBeforeFilters) {
  const forms::test::ListTokenizer tokenizer({"", "b", "c", "d", "e"});  // the first is the end token
  const auto tokens = std::make_shared<forms::TokenTree>(tokenizer);
  const auto form = forms::make_form({.kind = forms::FormOptions::Kind::Regex, .text = "[ce]*"}, tokens);
  const auto expect = [&](const SamplerOptions& options, const std::vector<double>& expected) {
    expect_distribution(options, expected, {}, {}, FormMask(form, tokenizer, {}, 0));
  };
  auto options = plain();
  expect(options, normalized({0.10, 0, 0.05, 0, 0.15}));
  options.temperature = 0.5F;
  expect(options, normalized({0.01, 0, 0.0025, 0, 0.0225}));
  options = plain();
  options.top_k = 2;
  expect(options, normalized({0.10, 0, 0, 0, 0.15}));
  options = plain();
  options.min_p = 0.5F;  // the limit is half of 0.15, the largest allowed probability
  expect(options, normalized({0.10, 0, 0, 0, 0.15}));
  options = plain();
  options.top_p = 0.4F;  // 0.15 is half of 0.30, the sum of the allowed probabilities
  expect(options, {0, 0, 0, 0, 1});
  options = plain();
  options.temperature = 0.0F;
  expect(options, {0, 0, 0, 0, 1});
  options.logit_bias = {{1, 100.0F}, {2, 5.0F}};
  expect(options, {0, 0, 1, 0, 0});
}

// Returns the token to draw. Sorts the whole vocabulary and adds up probabilities in descending order.
int32_t draw_by_full_sort(const SamplerOptions& o, const std::vector<float>& logits, int64_t position) {
  struct Token {
    int32_t id;
    float logit;
    double probability;
  };
  std::vector<Token> tokens;
  for (size_t id = 0; id < logits.size(); ++id) tokens.push_back({static_cast<int32_t>(id), logits[id], 0.0});
  std::stable_sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.logit > b.logit; });
  const double largest = tokens.front().logit;
  const auto normalize = [&](double temperature) {
    double sum = 0.0;
    for (Token& t : tokens) sum += t.probability = std::exp((t.logit - largest) / temperature);
    for (Token& t : tokens) t.probability /= sum;
  };
  if (o.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(o.top_k)));
  normalize(1.0);
  if (o.top_p < 1.0F) {
    double sum = 0.0;
    size_t n = 0;
    while (n < tokens.size() && sum < o.top_p) sum += tokens[n++].probability;
    tokens.resize(n);
  }
  const double least = o.min_p * tokens.front().probability;
  std::erase_if(tokens, [&](const Token& t) { return t.probability < least; });
  normalize(o.temperature);
  double left = core::random_uniform(o.seed, static_cast<uint64_t>(position));
  for (const Token& t : tokens) {
    if ((left -= t.probability) < 0.0) return t.id;
  }
  return tokens.back().id;
}

// Returns logits of one of sixteen distributions, which the seed selects: from all equal to spread over 1e30, with and
// without ties, some with one nearly certain token.
std::vector<float> random_logits(uint64_t seed, size_t n) {
  const double spreads[] = {0.0, 0.5, 3.0, 8.0, 40.0, 1000.0, 1e30, 3.0};
  const double spread = spreads[seed % 8];
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) {
    double normal = -6.0;  // the sum of twelve uniform numbers has mean 6 and variance 1
    for (uint64_t k = 0; k < 12; ++k) normal += core::random_uniform(seed, i * 12 + k);
    if (seed % 16 >= 8) normal = std::round(normal * 4.0) / 4.0;
    logits[i] = static_cast<float>(5.0 + normal * spread);
  }
  if (seed % 8 == 7) logits[n / 2] += 25.0F;  // makes one token nearly certain
  return logits;
}

TEST(Sampler, MatchesAFullSort) {
  for (const size_t n : {1, 2, 17, 300, 5000}) {
    for (uint64_t seed = 0; seed < (test::kSanitized ? 4U : 16U); ++seed) {
      const std::vector<float> logits = random_logits(seed, n);
      for (const float top_p : {1.0F, 0.95F, 0.5F, 1e-4F}) {
        for (const float min_p : {0.0F, 0.05F, 1.0F}) {
          for (const int32_t top_k : {0, 40, 600}) {
            for (const float temperature : {0.8F, 1.0F, 5.0F, 1e-3F}) {
              const SamplerOptions options{
                  .temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p, .seed = seed};
              Sampler sampler(options, {});
              for (int64_t position = 0; position < (n > 1000 ? 1 : 3); ++position) {
                ASSERT_EQ(draw(sampler, logits, position), draw_by_full_sort(options, logits, position))
                    << n << " logits, seed " << seed << ", top-p " << top_p << ", min-p " << min_p << ", top-k "
                    << top_k << ", temperature " << temperature << ", position " << position;
              }
            }
          }
        }
      }
    }
  }
}

// Equal probabilities add up to top-p exactly, so the last bit of the sum decides how many tokens are kept.
TEST(Sampler, RoundsLikeAFullSort) {
  for (const size_t n : {10, 100, 1000, 1024, 3000}) {
    const std::vector<float> logits(n, 1.5F);
    for (size_t tenths = 1; tenths < 10; ++tenths) {
      auto options = plain();
      options.top_p = static_cast<float>(tenths) / 10.0F;
      Sampler sampler(options, {});
      for (int64_t position = 0; position < 20; ++position) {
        ASSERT_EQ(draw(sampler, logits, position), draw_by_full_sort(options, logits, position)) << n << " " << tenths;
      }
    }
  }
  for (int denominator = 1; denominator < 200; ++denominator) {  // probabilities that equal min-p up to rounding
    auto options = plain();
    options.min_p = 1.0F / static_cast<float>(denominator);
    const auto logit = static_cast<float>(std::log(static_cast<double>(options.min_p)));
    const std::vector<float> logits{0.0F, logit, std::nextafter(logit, -1.0F), std::nextafter(logit, 0.0F), logit};
    Sampler sampler(options, {});
    for (int64_t position = 0; position < 20; ++position) {
      ASSERT_EQ(draw(sampler, logits, position), draw_by_full_sort(options, logits, position)) << denominator;
    }
  }
}

TEST(Sampler, PenaltyDividesPositiveAndMultipliesNegativeLogits) {
  auto options = plain();
  options.temperature = 0.0F;
  options.repetition_penalty = 2.0F;
  Sampler sampler(options, {});
  const std::vector<int32_t> history{1, 3, 1, 1};  // a token that is repeated is penalized once
  std::vector<float> logits{0.5F, 3.0F, 1.4F, -1.0F, 0.0F};
  EXPECT_EQ(sampler.sample(logits, history, 0), 1);  // 3 / 2 is still the largest logit
  EXPECT_EQ(logits, (std::vector<float>{0.5F, 1.5F, 1.4F, -2.0F, 0.0F}));
  EXPECT_EQ(draw(sampler, {0.5F, 2.6F, 1.4F}, 0, std::vector<int32_t>{1}), 2);
  EXPECT_EQ(draw(sampler, {-3.0F, -1.0F, -1.5F}, 0, std::vector<int32_t>{1}), 2);
  options.repetition_penalty = 0.5F;  // a penalty below 1 favors repetition
  Sampler rewards(options, {});
  EXPECT_EQ(draw(rewards, {1.5F, 1.0F}, 0, std::vector<int32_t>{1}), 1);
}

TEST(Sampler, PenaltyAppliesToTheLastNTokens) {
  auto options = plain();
  options.temperature = 0.0F;
  options.repetition_penalty = 10.0F;
  const std::vector<int32_t> history{0, 1, 2};
  const struct {
    int32_t last_n;
    int32_t expected;
  } cases[] = {{0, 0}, {1, 0}, {2, 0}, {3, 3}, {100, 3}};
  for (const auto& c : cases) {
    options.repeat_last_n = c.last_n;
    Sampler sampler(options, {});
    EXPECT_EQ(draw(sampler, {5, 4, 3, 2}, 0, history), c.expected) << c.last_n;
    EXPECT_EQ(draw(sampler, {5, 4, 3, 2}, 0, {}), 0) << c.last_n;
  }
  options.repeat_last_n = 1;
  Sampler sampler(options, {});
  EXPECT_EQ(draw(sampler, {3, 4, 5, 2}, 0, history), 1);
}

// By OpenAI's API reference ("Frequency and presence penalties"), logit -= count * frequency + (count > 0) * presence.
TEST(Sampler, PresenceAndFrequencyCountGeneratedTokens) {
  auto options = plain();
  options.temperature = 0.0F;
  options.presence_penalty = 0.5F;
  options.frequency_penalty = 0.25F;
  Sampler sampler(options, {}, 2);
  const std::vector<int32_t> history{0, 4, 1, 3, 1, 1};  // 0 and 4 are the prompt
  std::vector<float> logits{0.5F, 3.0F, 1.5F, -1.0F, 0.0F};
  EXPECT_EQ(sampler.sample(logits, history, 0), 1);
  EXPECT_EQ(logits, (std::vector<float>{0.5F, 1.75F, 1.5F, -1.75F, 0.0F}));
  EXPECT_EQ(draw(sampler, {1.0F, 0.9F}, 0, std::vector<int32_t>{0, 0}), 0) << "nothing was generated yet";
  options.repetition_penalty = 2.0F;  // as in llama.cpp and vLLM, applied first: 1 / 2 - 0.75
  logits = {1.0F, 0.0F};
  EXPECT_EQ(Sampler(options, {}).sample(logits, std::vector<int32_t>{0}, 0), 1);
  EXPECT_EQ(logits[0], -0.25F);
}

TEST(Sampler, AddsLogitBias) {
  auto options = plain();
  options.logit_bias = {{4, 1.0F}, {1, -100.0F}};
  std::vector<double> shares = kShares;
  shares[4] *= std::exp(1.0);
  shares[1] = 0.0;
  expect_distribution(options, normalized(shares));
  options.logit_bias = {{5, 1.0F}};
  Sampler sampler(options, {});
  EXPECT_ERROR(draw(sampler, logits_of(kShares), 0), "token 5 is outside the model's vocabulary");
}

TEST(Sampler, NeverDrawsForbiddenTokens) {
  expect_distribution(plain(), normalized({0.10, 0, 0.05, 0.30, 0}), {}, {1, 4});
  auto options = plain();
  options.top_k = 2;  // the top 2 of the tokens that may be drawn
  expect_distribution(options, normalized({0.10, 0, 0, 0.30, 0}), {}, {1, 4});
  options.temperature = 0.0F;
  Sampler greedy(options, {1});
  EXPECT_EQ(draw(greedy, logits_of(kShares), 0), 3);
}

TEST(Sampler, NeverCompletesABadWord) {
  SamplerOptions options = plain();
  options.bad_words = {{3}, {2, 4}, {0, 2, 1}};
  EXPECT_TRUE(options.needs_history() && options.on_host());
  const std::vector<int32_t> none{1}, last{1, 2}, both{0, 2};
  expect_distribution(options, normalized({0.10, 0.40, 0.05, 0.0, 0.15}), none);
  expect_distribution(options, normalized({0.10, 0.40, 0.05, 0.0, 0.0}), last);
  expect_distribution(options, normalized({0.10, 0.0, 0.05, 0.0, 0.0}), both);
  Sampler sampler(options, {});
  EXPECT_TRUE(sampler.forbids(3, none) && sampler.forbids(4, last) && sampler.forbids(1, both));
  EXPECT_FALSE(sampler.forbids(4, none) || sampler.forbids(1, last) || sampler.forbids(4, {}));
  options.bad_words = {{3}};
  EXPECT_FALSE(options.needs_history() || options.on_host());
  options.bad_words = {{}};
  EXPECT_THROW(Sampler(options, {}), core::Error);
}

TEST(Sampler, RejectsIdsWithoutALogit) {
  for (const int32_t wrong : {-1, 5, std::numeric_limits<int32_t>::max()}) {
    Sampler forbids(plain(), {1, wrong});
    EXPECT_ERROR(draw(forbids, logits_of(kShares), 0),
                 fmt::format("token {} is outside the model's vocabulary", wrong));
    auto options = plain();
    options.repetition_penalty = 2.0F;
    Sampler penalizes(options, {});
    EXPECT_ERROR(draw(penalizes, logits_of(kShares), 0, std::vector<int32_t>{wrong, 2}),
                 fmt::format("token {} is outside the model's vocabulary", wrong));
  }
}

TEST(Sampler, RejectsAnEmptyCandidateSet) {
  for (const float temperature : {0.0F, 1.0F}) {
    auto options = plain();
    options.temperature = temperature;
    Sampler sampler(options, {0, 1});
    EXPECT_ERROR(draw(sampler, {1, 2}, 0), "no token");
    Sampler nothing(options, {});
    EXPECT_ERROR(draw(nothing, {}, 0), "no token");
  }
}

TEST(Sampler, ErrorsNameThePositionOfNonFiniteLogits) {
  for (const float wrong : {kNaN, kInf, -kInf}) {
    for (const float temperature : {0.0F, 1.0F}) {
      for (size_t at = 0; at < 3; ++at) {
        auto options = plain();
        options.temperature = temperature;
        Sampler sampler(options, {2});
        std::vector<float> logits{1, 2, 3};
        logits[at] = wrong;
        EXPECT_ERROR(draw(sampler, logits, 1234), "1234");
      }
    }
  }
}

TEST(Sampler, DrawsFromExtremeFiniteLogits) {
  const float huge = std::numeric_limits<float>::max();
  Sampler sampler(plain(), {});
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(draw(sampler, {-huge, huge, 0, -huge}, i), 1);
    EXPECT_LE(draw(sampler, {huge, huge, -huge}, i), 1);
  }
  for (const float temperature : {1e-29F, 1e-31F, 1e-38F, 1e-44F}) {  // 1 / 1e-44 overflows a float
    auto options = plain();
    options.temperature = temperature;
    Sampler sampler(options, {});
    const std::vector<float> logits{0.0F, -temperature, -3.0F * temperature, -30.0F * temperature, -1e-38F, -1.0F};
    for (int64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(draw(sampler, logits, i), draw_by_full_sort(options, logits, i)) << temperature;
    }
  }
  auto options = plain();
  options.temperature = std::numeric_limits<float>::denorm_min();
  Sampler cold(options, {});
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(draw(cold, logits_of(kShares), i), 1);
}

TEST(Sampler, ErrorsNameInvalidOptions) {
  const auto refuses = [](const char* name, auto change) {
    auto options = plain();
    change(options);
    EXPECT_ERROR(Sampler(options, {}), name);
  };
  for (const float v : {-0.1F, 101.0F, kNaN, kInf}) refuses("temperature", [&](auto& o) { o.temperature = v; });
  for (const float v : {-0.5F, 1.01F, kNaN, kInf}) refuses("top_p", [&](auto& o) { o.top_p = v; });
  for (const float v : {-0.1F, 1.01F, kNaN, kInf}) refuses("min_p", [&](auto& o) { o.min_p = v; });
  for (const float v : {0.0F, -1.0F, 101.0F, kNaN, kInf}) {
    refuses("repetition_penalty", [&](auto& o) { o.repetition_penalty = v; });
  }
  for (const float v : {-2.1F, 2.1F, kNaN, kInf}) {
    refuses("presence_penalty", [&](auto& o) { o.presence_penalty = v; });
    refuses("frequency_penalty", [&](auto& o) { o.frequency_penalty = v; });
  }
  for (const float v : {-101.0F, 101.0F, kNaN})
    refuses("logit bias of token 3", [&](auto& o) { o.logit_bias = {{3, v}}; });
  refuses("top_k", [](auto& o) { o.top_k = -2; });
  refuses("repeat_last_n", [](auto& o) { o.repeat_last_n = -1; });
}

}  // namespace
}  // namespace folio::infer
