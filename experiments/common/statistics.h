// Means and confidence intervals over a few runs. Variants are compared by paired differences between runs with the
// same seed (same initialization and batches), which cancel the effect of the seed.
#pragma once

#include <cmath>
#include <span>
#include <vector>

namespace folio::experiments {

/// A mean and its 95 % confidence interval.
struct Interval {
  double mean = 0.0;
  double low = 0.0;
  double high = 0.0;
};

/// Returns the larger value, or NaN if one is NaN, which std::max may discard: a largest error must not hide a NaN.
template <typename Number>
[[nodiscard]] Number larger(Number a, Number b) {
  return a > b || std::isnan(a) ? a : b;
}

/// Returns a / b as doubles.
[[nodiscard]] double ratio(auto a, auto b) { return static_cast<double>(a) / static_cast<double>(b); }

/// Returns the mean of the values. Throws core::Error if there are none.
[[nodiscard]] double mean_of(std::span<const double> values);

/// Returns P(|t| <= x) for Student's t with `degrees` degrees of freedom, x >= 0. Throws core::Error unless degrees >=
/// 1. Source: Abramowitz & Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
[[nodiscard]] double student_t_within(double x, int degrees);

/// Returns the x for which student_t_within(x, degrees) is 0.95: 12.706 for 1 degree.
[[nodiscard]] double student_t_bound(int degrees);

/// Returns the 95 % interval mean ± t s / √n with the sample standard deviation s and n - 1 degrees of freedom. Source:
/// Student, "The Probable Error of a Mean", 1908. Throws core::Error for fewer than two values.
[[nodiscard]] Interval mean_interval(std::span<const double> values);

/// Returns a[i] - b[i] for each i. Throws core::Error if the sizes differ.
[[nodiscard]] std::vector<double> differences(std::span<const double> a, std::span<const double> b);

/// Returns mean_interval(differences(a, b)), or for a single pair the difference itself as mean, low and high.
[[nodiscard]] Interval paired_interval(std::span<const double> a, std::span<const double> b);

/// Returns the absolute value of each element.
[[nodiscard]] std::vector<double> sizes(std::vector<double> values);

}  // namespace folio::experiments
