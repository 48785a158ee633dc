// The mistakes, each with the test that must fail first and words of its message:
//     one_past_the_end: NothingIsSubtracted: writes past the end of an array, which has 4 numbers
//     one_too_many_is_read: NothingIsSubtracted: reads past the end of an array
//     counts_down_for_ever: NothingIsSubtracted: A size_t has no numbers below 0
//     layer_norm: NothingIsSubtracted: LayerNorm
//     mean_instead_of_mean_square: TheSquaresAreAveraged: instead of the mean of their squares
//     no_root: TheScaleOfTheInputDoesNotMatter: square root is missing
//     sum_instead_of_mean: TheMeanIsTakenAndNotTheSum: divide by dim
//     no_eps: ZerosStayFinite: 0 was divided by 0
//     eps_after_the_root: EpsIsAddedBeforeTheRoot: not sqrt(mean square) + eps
//     no_weight: EachNumberHasItsOwnWeight: multiplied by weight_i
//     mean_over_positions: APositionDependsOnItselfAlone: over positions too
#include <cmath>

#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {
namespace {

float mean(const float* x, size_t n) {
  float sum = 0.0F;
  for (size_t i = 0; i < n; ++i) sum += x[i];
  return sum / static_cast<float>(n);
}

float mean_square(const float* x, size_t n) {
  float sum = 0.0F;
  if (wrong("counts_down_for_ever")) {
    // Imitates counting i down while i >= 0, which always holds for a size_t. Ends after reading x at i = -1, where the
    // sanitizer reports an error.
    for (size_t left = n, i = n - 1; left <= n; --left, --i) sum += x[i] * x[i];
  } else {
    for (size_t i = 0; i < n + (wrong("one_too_many_is_read") ? 1 : 0); ++i) sum += x[i] * x[i];
  }
  return wrong("sum_instead_of_mean") ? sum : sum / static_cast<float>(n);
}

// Returns the number by which the elements of a position are divided.
float size_of(const float* x, size_t n, float eps) {
  if (wrong("mean_instead_of_mean_square")) return std::sqrt(mean(x, n) + eps);
  if (wrong("no_root")) return mean_square(x, n) + eps;
  if (wrong("no_eps")) return std::sqrt(mean_square(x, n));
  if (wrong("eps_after_the_root")) return std::sqrt(mean_square(x, n)) + eps;
  return std::sqrt(mean_square(x, n) + eps);
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  for (size_t i = 0; wrong("one_past_the_end") && i <= n_positions * dim; ++i) out[i] = 0.0F;
  for (size_t t = 0; t < n_positions; ++t) {
    const float* x_t = x + t * dim;
    float size = wrong("mean_over_positions") ? size_of(x, n_positions * dim, eps) : size_of(x_t, dim, eps);
    const float middle = wrong("layer_norm") ? mean(x_t, dim) : 0.0F;
    if (wrong("layer_norm")) size = std::sqrt(mean_square(x_t, dim) - middle * middle + eps);
    for (size_t i = 0; i < dim; ++i) {
      out[t * dim + i] = (x_t[i] - middle) / size * (wrong("no_weight") ? 1.0F : weight[i]);
    }
  }
}

}  // namespace folio::exercises
