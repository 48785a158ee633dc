#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

// Divides the elements of each position by size(elements), then multiplies them by the weights.
template <typename Size>
void divide(const float* x, const float* weight, size_t n_positions, size_t dim, float* out, Size size) {
  for (size_t t = 0; t < n_positions; ++t) {
    for (size_t i = 0; i < dim; ++i) out[t * dim + i] = x[t * dim + i] / size(x + t * dim) * weight[i];
  }
}

float mean(const float* x, size_t n) {
  float sum = 0.0F;
  for (size_t i = 0; i < n; ++i) sum += x[i];
  return sum / static_cast<float>(n);
}

float mean_square(const float* x, size_t n) {
  float sum = 0.0F;
  for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum / static_cast<float>(n);
}

void layer_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  for (size_t t = 0; t < n_positions; ++t) {
    const float* x_t = x + t * dim;
    const float middle = mean(x_t, dim);
    const float variance = mean_square(x_t, dim) - middle * middle;
    for (size_t i = 0; i < dim; ++i) out[t * dim + i] = (x_t[i] - middle) / std::sqrt(variance + eps) * weight[i];
  }
}

void mean_instead_of_mean_square(const float* x, const float* weight, float eps, size_t n_positions, size_t dim,
                                 float* out) {
  divide(x, weight, n_positions, dim, out, [&](const float* x_t) { return std::sqrt(mean(x_t, dim) + eps); });
}

void no_root(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  divide(x, weight, n_positions, dim, out, [&](const float* x_t) { return mean_square(x_t, dim) + eps; });
}

void sum_instead_of_mean(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  const auto n = static_cast<float>(dim);
  divide(x, weight, n_positions, dim, out,
         [&](const float* x_t) { return std::sqrt(n * mean_square(x_t, dim) + eps); });
}

void no_eps(const float* x, const float* weight, float /*eps*/, size_t n_positions, size_t dim, float* out) {
  divide(x, weight, n_positions, dim, out, [&](const float* x_t) { return std::sqrt(mean_square(x_t, dim)); });
}

void eps_after_the_root(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  divide(x, weight, n_positions, dim, out, [&](const float* x_t) { return std::sqrt(mean_square(x_t, dim)) + eps; });
}

void no_weight(const float* x, const float* /*weight*/, float eps, size_t n_positions, size_t dim, float* out) {
  const std::vector<float> ones(dim, 1.0F);
  reference::rms_norm(x, ones.data(), eps, n_positions, dim, out);
}

void mean_over_positions(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  divide(x, weight, n_positions, dim, out,
         [&](const float* /*x_t*/) { return std::sqrt(mean_square(x, n_positions * dim) + eps); });
}

// Deliberate mistake: uses <= instead of < in a loop that writes, so out[n_positions * dim] is written.
void one_past_the_end(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  for (size_t i = 0; i <= n_positions * dim; ++i) out[i] = 0.0F;
  reference::rms_norm(x, weight, eps, n_positions, dim, out);
}

// Deliberate mistake: uses <= instead of < in the loop that reads, so x_t[dim] is read.
void one_too_many_is_read(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  divide(x, weight, n_positions, dim, out, [&](const float* x_t) {
    float sum = 0.0F;
    for (size_t i = 0; i <= dim; ++i) sum += x_t[i] * x_t[i];
    return std::sqrt(sum / static_cast<float>(dim) + eps);
  });
}

// Deliberate mistake: imitates counting i down while i >= 0, which always holds for a size_t. Ends after reading x_t at
// i = -1, where the sanitizer reports an error.
void counts_down_for_ever(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  divide(x, weight, n_positions, dim, out, [&](const float* x_t) {
    float sum = 0.0F;
    for (size_t left = dim, i = dim - 1; left <= dim; --left, --i) sum += x_t[i] * x_t[i];
    return std::sqrt(sum / static_cast<float>(dim) + eps);
  });
}

const std::vector<Mistake<decltype(rms_norm)>> kMistakes{
    {"one_past_the_end", "NothingIsSubtracted", "writes past the end of an array, which has 4 numbers",
     one_past_the_end},
    {"one_too_many_is_read", "NothingIsSubtracted", "reads past the end of an array", one_too_many_is_read},
    {"counts_down_for_ever", "NothingIsSubtracted", "A size_t has no numbers below 0", counts_down_for_ever},
    {"layer_norm", "NothingIsSubtracted", "LayerNorm", layer_norm},
    {"mean_instead_of_mean_square", "TheSquaresAreAveraged", "instead of the mean of their squares",
     mean_instead_of_mean_square},
    {"no_root", "TheScaleOfTheInputDoesNotMatter", "square root is missing", no_root},
    {"sum_instead_of_mean", "TheMeanIsTakenAndNotTheSum", "divide by dim", sum_instead_of_mean},
    {"no_eps", "ZerosStayFinite", "0 was divided by 0", no_eps},
    {"eps_after_the_root", "EpsIsAddedBeforeTheRoot", "not sqrt(mean square) + eps", eps_after_the_root},
    {"no_weight", "EachNumberHasItsOwnWeight", "multiplied by weight_i", no_weight},
    {"mean_over_positions", "APositionDependsOnItselfAlone", "over positions too", mean_over_positions},
};

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  chosen(kMistakes, reference::rms_norm)(x, weight, eps, n_positions, dim, out);
}

}  // namespace folio::exercises
