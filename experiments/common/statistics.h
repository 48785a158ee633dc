// Means and confidence intervals over a few runs. Variants are compared by paired differences between runs with the
// same seed (same initialization and batches), which cancel the effect of the seed.
#pragma once

#include <span>
#include <vector>

namespace folio::experiments {

/// A mean and its 95 % confidence interval.
struct Interval {
  double mean = 0.0;
  double low = 0.0;
  double high = 0.0;
};

/// Returns a / b as doubles.
[[nodiscard]] double ratio(auto a, auto b) { return static_cast<double>(a) / static_cast<double>(b); }

/// Returns the mean of the values. Throws core::Error if there are none.
[[nodiscard]] double mean_of(std::span<const double> values);

/// Returns P(|t| <= x) for Student's t with `degrees` degrees of freedom, x >= 0. Throws core::Error unless degrees >=
/// 1. Source: Abramowitz & Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
[[nodiscard]] double student_t_within(double x, int degrees);

/// Returns the x for which student_t_within(x, degrees) is `probability`: 12.706 for 0.95 and 1 degree. Throws
/// core::Error unless 0 < probability < 1.
[[nodiscard]] double student_t_bound(double probability, int degrees);

/// Returns the 95 % interval mean ± t s / √n with the sample standard deviation s and n - 1 degrees of freedom. Source:
/// Student, "The Probable Error of a Mean", 1908. Throws core::Error for fewer than two values.
[[nodiscard]] Interval mean_interval(std::span<const double> values);

/// Returns a[i] - b[i] for each i. Throws core::Error if the sizes differ.
[[nodiscard]] std::vector<double> differences(std::span<const double> a, std::span<const double> b);

/// Returns mean_interval(differences(a, b)).
[[nodiscard]] Interval paired_interval(std::span<const double> a, std::span<const double> b);

/// Returns paired_interval(a, b), or for a single pair the difference itself as mean, low and high.
[[nodiscard]] Interval paired_interval_or_difference(std::span<const double> a, std::span<const double> b);

/// Returns the absolute value of each element.
[[nodiscard]] std::vector<double> sizes(std::vector<double> values);

}  // namespace folio::experiments
