#include "experiments/common/statistics.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "core/error.h"

namespace folio::experiments {

double mean_of(std::span<const double> values) {
  core::require(!values.empty(), "no values, no mean");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double student_t_within(double x, int degrees) {
  core::require(degrees >= 1, "Student's t has at least 1 degree of freedom, not {}", degrees);
  const double angle = std::atan(x / std::sqrt(static_cast<double>(degrees)));
  const double cos2 = std::cos(angle) * std::cos(angle);
  // Abramowitz & Stegun, 26.7.3, 26.7.4: cos a + 2/3 cos^3 a + … for odd degrees, 1 + 1/2 cos^2 a + … for even ones.
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(angle) : 1.0;
  double sum = degrees == 1 ? 0.0 : term;
  for (int i = odd ? 2 : 1; i <= degrees - 3; i += 2) {  // last factor: (degrees - 3) / (degrees - 2)
    term *= cos2 * i / (i + 1.0);
    sum += term;
  }
  return odd ? 2.0 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
}

double student_t_bound(int degrees) {
  constexpr double kProbability = 0.95;
  double low = 0.0;
  double high = 1.0;
  while (student_t_within(high, degrees) < kProbability) high *= 2.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (student_t_within(middle, degrees) < kProbability ? low : high) = middle;
  }
  return high;
}

Interval mean_interval(std::span<const double> values) {
  core::require(values.size() >= 2, "an interval needs at least two values, not {}", values.size());
  const auto n = static_cast<double>(values.size());
  const double mean = mean_of(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double half =
      student_t_bound(static_cast<int>(values.size()) - 1) * std::sqrt(squares / (n - 1.0)) / std::sqrt(n);
  return {.mean = mean, .low = mean - half, .high = mean + half};
}

std::vector<double> differences(std::span<const double> a, std::span<const double> b) {
  core::require(a.size() == b.size(), "pairs need as many values on both sides, not {} and {}", a.size(), b.size());
  std::vector<double> result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

Interval paired_interval(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> apart = differences(a, b);
  return apart.size() == 1 ? Interval{apart[0], apart[0], apart[0]} : mean_interval(apart);
}

std::vector<double> sizes(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

}  // namespace folio::experiments
