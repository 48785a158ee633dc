// The mistakes, each with the test that must fail first and words of its message:
//     no_minus: EqualLogitsAreAGuess: is -1.38629, but
//     no_logarithm: EqualLogitsAreAGuess: is 0.25, but
//     no_softmax: EqualLogitsAreAGuess: without the softmax
//     divided_by_v: AllLogitsMayMoveTogether: the number of characters
//     of_the_likeliest: TheTargetsProbabilityCounts: is 0.693147, but
//     summed: PositionsAreAveraged: is 2.77259, but
//     first_row_only: PositionsAreAveraged: begins at t * V
//     no_maximum: LargeLogitsStayFinite: Subtract the largest logit
//     one_maximum_for_all: LargeLogitsStayFinite: each position has its own
#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

double cross_entropy(const Floats& logits, const std::vector<int32_t>& targets) {
  const size_t n = targets.size(), V = logits.size() / n;
  const float largest_of_all = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (size_t t = 0; t < n; ++t) {
    const float* row = logits.data() + (wrong("first_row_only") ? 0 : t * V);
    const float largest = *std::max_element(row, row + V);
    const double m = wrong("no_maximum") || wrong("divided_by_v") ? 0.0
                     : wrong("one_maximum_for_all")               ? largest_of_all
                                                                  : largest;
    double sum = 0.0;
    for (size_t v = 0; v < V; ++v) sum += std::exp(row[v] - m);
    if (wrong("divided_by_v")) sum = static_cast<double>(V);
    const double logit = wrong("of_the_likeliest") ? largest : row[targets[t]];
    const double ln_p = wrong("no_maximum") ? std::log(std::exp(logit) / sum) : logit - m - std::log(sum);
    total += wrong("no_minus") ? ln_p : wrong("no_logarithm") ? std::exp(ln_p) : wrong("no_softmax") ? -logit : -ln_p;
  }
  return wrong("summed") ? total : total / static_cast<double>(n);
}

}  // namespace folio::exercises
