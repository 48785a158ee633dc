// Means of a few runs, and how far to trust them. Two variants are compared by the differences of runs that share
// their seed (the same first values, the same batches): what the seed does to both of them then drops out.
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

/// P(|t| <= x) for Student's t with `degrees` degrees of freedom, x >= 0. Throws core::Error unless degrees >= 1.
/// Source: Abramowitz & Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
[[nodiscard]] double student_t_within(double x, int degrees);

/// The x with student_t_within(x, degrees) = probability, 0 < probability < 1: 12.706 for 0.95 and 1 degree.
[[nodiscard]] double student_t_bound(double probability, int degrees);

/// mean ± t s / √n, with the values' standard deviation s (n - 1 in its denominator) and n - 1 degrees of freedom.
/// Source: Student, "The Probable Error of a Mean", 1908. Throws core::Error for fewer than two values.
[[nodiscard]] Interval mean_interval(std::span<const double> values);

/// a[i] - b[i] for each i. Throws core::Error where their sizes differ.
[[nodiscard]] std::vector<double> differences(std::span<const double> a, std::span<const double> b);

/// mean_interval of the differences.
[[nodiscard]] Interval paired_interval(std::span<const double> a, std::span<const double> b);

/// paired_interval; of a single pair, the difference itself.
[[nodiscard]] Interval paired_interval_or_difference(std::span<const double> a, std::span<const double> b);

/// Each without its sign.
[[nodiscard]] std::vector<double> sizes(std::vector<double> values);

}  // namespace folio::experiments
