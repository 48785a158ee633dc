// The mistakes, each with the test that must fail first and words of its message:
//     temperature_zero_is_one: TemperatureZeroTakesTheLikeliest: nothing is drawn
//     logits_are_shares: TokensAreDrawnByTheirSoftmax: like the logits
//     equal_shares: TokensAreDrawnByTheirSoftmax: Equal shares
//     always_the_likeliest: TokensAreDrawnByTheirSoftmax: all for the likeliest
//     no_temperature: TheTemperatureDividesTheLogits: without the temperature
//     temperature_multiplies: TheTemperatureDividesTheLogits: multiplied by 0.5
//     first_k_of_the_vocabulary: TopKKeepsTheKLikeliest: not the first 3
//     k_beyond_the_vocabulary: TopKKeepsTheKLikeliest: fewer than k
//     drops_the_crossing_token: TopPKeepsTheTokenThatCrossesTheBorder: crosses the border
//     min_p_of_its_own: MinPIsAShareOfTheLikeliest: one of the likeliest's share
//     shares_of_all_tokens: WhatIsKeptHasSharesThatSumToOne: not divided by the sum
//     top_p_of_all: TopPLooksAtWhatTopKKept: among all tokens
//     temperature_first: FiltersComeBeforeTheTemperature: at temperature 1
//     min_p_after_temperature: FiltersComeBeforeTheTemperature: Min-p looks at
//     order_of_ids: TheLikeliestComesFirst: not by their ids
//     falls_off_the_end: TheLineEndsWithAToken: take the last token
//     keeps_the_impossible: MinusInfinityIsNeverDrawn: no piece of the line
#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {
namespace {

struct Token {
  int32_t id;
  float logit;
  float share = 0.0F;
};

// Sets each token's share to its probability, the softmax of logit · factor over `tokens`. tokens[0] must have the
// largest logit. `sum` is the part of the softmax's denominator that belongs to tokens outside the list.
void find_shares(std::vector<Token>& tokens, float factor, float sum = 0.0F) {
  for (Token& t : tokens) t.share = std::exp((t.logit - tokens[0].logit) * factor);
  for (const Token& t : tokens) sum += t.share;
  for (Token& t : tokens) t.share /= sum;
}

}  // namespace

int32_t sample(std::span<const float> logits, const SamplerOptions& o, double uniform) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!wrong("keeps_the_impossible") && !std::isfinite(logits[i])) continue;
    tokens.push_back({static_cast<int32_t>(i), logits[i]});
  }
  if (wrong("first_k_of_the_vocabulary") && o.top_k > 0) tokens.resize(std::min(tokens.size(), o.top_k));
  std::stable_sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.logit > b.logit; });
  float temperature = o.temperature;
  if (temperature == 0.0F && !wrong("temperature_zero_is_one")) return tokens[0].id;
  if (temperature == 0.0F || wrong("no_temperature")) temperature = 1.0F;
  const float factor = wrong("temperature_multiplies") ? temperature : 1.0F / temperature;
  const auto keep_k = [&] {
    if (o.top_k > 0) tokens.resize(wrong("k_beyond_the_vocabulary") ? o.top_k : std::min(tokens.size(), o.top_k));
  };
  if (!wrong("top_p_of_all")) keep_k();

  find_shares(tokens, wrong("temperature_first") ? factor : 1.0F);
  keep_k();
  size_t n = 0;
  for (float sum = 0.0F; n < tokens.size() && (sum < o.top_p || o.top_p == 1.0F); ++n) sum += tokens[n].share;
  if (wrong("drops_the_crossing_token") && o.top_p < 1.0F && n > 1) --n;
  if (wrong("min_p_after_temperature")) find_shares(tokens, factor);
  const float least = wrong("min_p_of_its_own") ? o.min_p : o.min_p * tokens[0].share;
  while (n > 1 && tokens[n - 1].share < least) --n;
  float cut_off = 0.0F;
  for (const float logit : logits) {
    if (wrong("shares_of_all_tokens") && logit < tokens[n - 1].logit) {
      cut_off += std::exp((logit - tokens[0].logit) * factor);
    }
  }
  tokens.resize(n);

  find_shares(tokens, factor, cut_off);
  if (wrong("order_of_ids")) {
    std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.id < b.id; });
  }
  for (Token& t : tokens) {
    if (wrong("logits_are_shares")) t.share = std::max(0.0F, t.logit);
    if (wrong("equal_shares")) t.share = 1.0F / static_cast<float>(tokens.size());
  }
  if (wrong("always_the_likeliest")) return tokens[0].id;
  auto left = static_cast<float>(uniform);
  for (const Token& t : tokens) {
    if ((left -= t.share) < 0.0F) return t.id;
  }
  if (wrong("falls_off_the_end")) return static_cast<int32_t>(logits.size());
  return tokens.back().id;
}

}  // namespace folio::exercises
