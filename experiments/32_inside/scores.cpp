#include "experiments/32_inside/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace folio::experiments {

std::string shown(const Head& head) { return fmt::format("{}.{}", head.layer, head.head); }

std::vector<int32_t> repeated_tokens(std::span<const int32_t> vocabulary, int64_t period, int64_t length,
                                     uint64_t seed) {
  core::require(period >= 1 && period <= std::ssize(vocabulary), "{} different tokens, but only {} to choose from",
                period, vocabulary.size());
  std::vector<int32_t> left(vocabulary.begin(), vocabulary.end()), tokens;
  const auto n = static_cast<size_t>(period);
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    if (i < n) std::swap(left[i], left[i + core::random_below(seed, i, left.size() - i)]);  // Fisher-Yates
    tokens.push_back(left[i % n]);
  }
  return tokens;
}

double previous_token_score(std::span<const float> weights, int64_t T) {
  double sum = 0.0;
  for (int64_t t = 1; t < T; ++t) sum += weights[static_cast<size_t>(t * T + t - 1)];
  return sum / static_cast<double>(T - 1);
}

double prefix_matching_score(std::span<const float> weights, int64_t T, int64_t period) {
  double sum = 0.0;
  for (int64_t t = period; t < T; ++t) {
    for (int64_t s = t + 1 - period; s > 0; s -= period) sum += weights[static_cast<size_t>(t * T + s)];
  }
  return sum / static_cast<double>(T - period);
}

double largest(const Doubles& values) { return *std::ranges::max_element(values); }

std::vector<size_t> from_largest(const Doubles& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](size_t i) { return values[i]; });
  return order;
}

std::vector<uint64_t> five_seeds(const Report& report) {
  std::vector<uint64_t> seeds(report.short_form() ? 1 : 5);
  std::iota(seeds.begin(), seeds.end(), report.seed());
  return seeds;
}

HeatMap::Panel attention_panel(const std::string& title, Doubles weights) {
  return {.title = title, .rows = kDrawn, .columns = kDrawn, .values = std::move(weights)};
}

}  // namespace folio::experiments
