#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

enum class Wrong { None, NoMinus, NoLogarithm, NoSoftmax, DividedByV, OfTheLikeliest, Summed, FirstRowOnly, NoMaximum };

template <Wrong kWrong>
double loss_of(const Floats& logits, const std::vector<int32_t>& targets) {
  using enum Wrong;
  const size_t n = targets.size(), V = logits.size() / n;
  double total = 0.0;
  for (size_t t = 0; t < n; ++t) {
    const float* row = logits.data() + (kWrong == FirstRowOnly ? 0 : t * V);
    const float largest = *std::max_element(row, row + V);
    const double m = kWrong == NoMaximum || kWrong == DividedByV ? 0.0 : largest;
    double sum = 0.0;
    for (size_t v = 0; v < V; ++v) sum += std::exp(row[v] - m);
    if (kWrong == DividedByV) sum = static_cast<double>(V);
    const double logit = kWrong == OfTheLikeliest ? largest : row[targets[t]];
    const double ln_p = kWrong == NoMaximum ? std::log(std::exp(logit) / sum) : logit - m - std::log(sum);
    total += kWrong == NoMinus ? ln_p : kWrong == NoLogarithm ? std::exp(ln_p) : kWrong == NoSoftmax ? -logit : -ln_p;
  }
  return kWrong == Summed ? total : total / static_cast<double>(n);
}

const std::vector<Mistake<decltype(cross_entropy)>> kMistakes{
    {"no_minus", "EqualLogitsAreAGuess", "is -1.38629, but", loss_of<Wrong::NoMinus>},
    {"no_logarithm", "EqualLogitsAreAGuess", "is 0.25, but", loss_of<Wrong::NoLogarithm>},
    {"no_softmax", "EqualLogitsAreAGuess", "without the softmax", loss_of<Wrong::NoSoftmax>},
    {"divided_by_v", "AllLogitsMayMoveTogether", "the number of characters", loss_of<Wrong::DividedByV>},
    {"of_the_likeliest", "TheTargetsProbabilityCounts", "is 0.693147, but", loss_of<Wrong::OfTheLikeliest>},
    {"summed", "PositionsAreAveraged", "is 2.77259, but", loss_of<Wrong::Summed>},
    {"first_row_only", "PositionsAreAveraged", "begins at t * V", loss_of<Wrong::FirstRowOnly>},
    {"no_maximum", "LargeLogitsStayFinite", "Subtract the largest logit", loss_of<Wrong::NoMaximum>},
};

}  // namespace

double cross_entropy(const Floats& logits, const std::vector<int32_t>& targets) {
  return chosen(kMistakes, loss_of<Wrong::None>)(logits, targets);
}

}  // namespace folio::exercises
