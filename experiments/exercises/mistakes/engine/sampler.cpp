#include <algorithm>
#include <cmath>

#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  ZeroIsOne,
  LogitsAreShares,
  EqualShares,
  AlwaysTheLikeliest,
  NoTemperature,
  TemperatureMultiplies,
  FirstKOfTheVocabulary,
  DropsTheCrossingToken,
  MinPOfItsOwn,
  SharesOfAllTokens,
  TemperatureFirst,
  OrderOfIds,
  FallsOffTheEnd,
  KeepsTheImpossible,
};

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

template <Wrong kWrong>
int32_t draw(std::span<const float> logits, const SamplerOptions& o, double uniform) {
  using enum Wrong;
  std::vector<Token> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (kWrong != KeepsTheImpossible && !std::isfinite(logits[i])) continue;
    tokens.push_back({static_cast<int32_t>(i), logits[i]});
  }
  if (kWrong == FirstKOfTheVocabulary && o.top_k > 0) tokens.resize(std::min(tokens.size(), o.top_k));
  std::stable_sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.logit > b.logit; });
  float temperature = o.temperature;
  if (temperature == 0.0F && kWrong != ZeroIsOne) return tokens[0].id;
  if (temperature == 0.0F || kWrong == NoTemperature) temperature = 1.0F;
  const float factor = kWrong == TemperatureMultiplies ? temperature : 1.0F / temperature;
  if (o.top_k > 0) tokens.resize(std::min(tokens.size(), o.top_k));

  find_shares(tokens, kWrong == TemperatureFirst ? factor : 1.0F);
  size_t n = 0;
  for (float sum = 0.0F; n < tokens.size() && (sum < o.top_p || o.top_p == 1.0F); ++n) sum += tokens[n].share;
  if (kWrong == DropsTheCrossingToken && o.top_p < 1.0F && n > 1) --n;
  const float least = kWrong == MinPOfItsOwn ? o.min_p : o.min_p * tokens[0].share;
  while (n > 1 && tokens[n - 1].share < least) --n;
  float cut_off = 0.0F;
  for (const float logit : logits) {
    if (kWrong == SharesOfAllTokens && logit < tokens[n - 1].logit) {
      cut_off += std::exp((logit - tokens[0].logit) * factor);
    }
  }
  tokens.resize(n);

  find_shares(tokens, factor, cut_off);
  if (kWrong == OrderOfIds) {
    std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.id < b.id; });
  }
  for (Token& t : tokens) {
    if (kWrong == LogitsAreShares) t.share = std::max(0.0F, t.logit);
    if (kWrong == EqualShares) t.share = 1.0F / static_cast<float>(tokens.size());
  }
  if (kWrong == AlwaysTheLikeliest) return tokens[0].id;
  auto left = static_cast<float>(uniform);
  for (const Token& t : tokens) {
    if ((left -= t.share) < 0.0F) return t.id;
  }
  if (kWrong == FallsOffTheEnd) return static_cast<int32_t>(logits.size());
  return tokens.back().id;
}

const std::vector<Mistake<decltype(sample)>> kMistakes{
    {"temperature_zero_is_one", "TemperatureZeroTakesTheLikeliest", "nothing is drawn", draw<Wrong::ZeroIsOne>},
    {"logits_are_shares", "TokensAreDrawnByTheirSoftmax", "like the logits", draw<Wrong::LogitsAreShares>},
    {"equal_shares", "TokensAreDrawnByTheirSoftmax", "Equal shares", draw<Wrong::EqualShares>},
    {"always_the_likeliest", "TokensAreDrawnByTheirSoftmax", "all for the likeliest", draw<Wrong::AlwaysTheLikeliest>},
    {"no_temperature", "TheTemperatureDividesTheLogits", "without the temperature", draw<Wrong::NoTemperature>},
    {"temperature_multiplies", "TheTemperatureDividesTheLogits", "multiplied by 0.5",
     draw<Wrong::TemperatureMultiplies>},
    {"first_k_of_the_vocabulary", "TopKKeepsTheKLikeliest", "not the first 3", draw<Wrong::FirstKOfTheVocabulary>},
    {"drops_the_crossing_token", "TopPKeepsTheTokenThatCrossesTheBorder", "crosses the border",
     draw<Wrong::DropsTheCrossingToken>},
    {"min_p_of_its_own", "MinPIsAShareOfTheLikeliest", "one of the likeliest's share", draw<Wrong::MinPOfItsOwn>},
    {"shares_of_all_tokens", "WhatIsKeptHasSharesThatSumToOne", "not divided by the sum",
     draw<Wrong::SharesOfAllTokens>},
    {"temperature_first", "FiltersComeBeforeTheTemperature", "at temperature 1", draw<Wrong::TemperatureFirst>},
    {"order_of_ids", "TheLikeliestComesFirst", "not by their ids", draw<Wrong::OrderOfIds>},
    {"falls_off_the_end", "TheLineEndsWithAToken", "take the last token", draw<Wrong::FallsOffTheEnd>},
    {"keeps_the_impossible", "MinusInfinityIsNeverDrawn", "no piece of the line", draw<Wrong::KeepsTheImpossible>},
};

}  // namespace

int32_t sample(std::span<const float> logits, const SamplerOptions& options, double uniform) {
  return chosen(kMistakes, draw<Wrong::None>)(logits, options, uniform);
}

}  // namespace folio::exercises
