#include "experiments/common/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/error.h"

namespace folio::experiments {
namespace {

// The table has the two-sided 95 % points of Student's t, from Abramowitz & Stegun, table 26.10.
TEST(StudentT, BoundsMatchPublishedTables) {
  const std::map<int, double> table{{1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},  {5, 2.571},  {7, 2.365},
                                    {9, 2.262},  {10, 2.228}, {29, 2.045}, {30, 2.042}, {120, 1.980}};
  for (const auto& [degrees, bound] : table) EXPECT_NEAR(student_t_bound(degrees), bound, 0.0005) << degrees;
}

// With 1 degree of freedom, P(|t| < x) is 2/π · atan x (Cauchy); with 2, x / √(2 + x²); with many, about erf(x / √2).
TEST(StudentT, LimitsAreKnownDistributions) {
  for (const double x : {0.0, 0.1, 1.0, 3.0, 100.0}) {
    EXPECT_NEAR(student_t_within(x, 1), 2.0 / M_PI * std::atan(x), 1e-14);
    EXPECT_NEAR(student_t_within(x, 2), x / std::sqrt(2.0 + x * x), 1e-14);
    EXPECT_NEAR(student_t_within(x, 100'000), std::erf(x / std::sqrt(2.0)), 1e-5);
  }
}

TEST(Statistics, IntervalMatchesHandCalculation) {
  // The mean is 3, s = √((4 + 0 + 4) / 2) = 2, and the half width is 4.303 · 2 / √3.
  const std::vector<double> values{1.0, 3.0, 5.0};
  const Interval interval = mean_interval(values);
  EXPECT_DOUBLE_EQ(interval.mean, 3.0);
  EXPECT_NEAR(interval.high - 3.0, 4.30265 * 2.0 / std::sqrt(3.0), 1e-4);
  EXPECT_NEAR(3.0 - interval.low, interval.high - 3.0, 1e-12);
}

TEST(Statistics, PairingRemovesCommonVariation) {
  // Each seed shifts both losses by the same amount, which doesn't affect their difference.
  const std::vector<double> a{1.5, 2.5, 9.5};
  const std::vector<double> b{1.0, 2.0, 9.0};
  const Interval paired = paired_interval(a, b);
  EXPECT_DOUBLE_EQ(paired.mean, 0.5);
  EXPECT_DOUBLE_EQ(paired.low, 0.5);
  EXPECT_DOUBLE_EQ(paired.high, 0.5);
  EXPECT_GT(mean_interval(a).high - mean_interval(a).low, 10.0);
}

TEST(Statistics, SinglePairGivesItsDifference) {
  const std::vector<double> a{3.0, 5.0};
  const std::vector<double> b{1.0, 2.0};
  const Interval single = paired_interval(std::span(a).first(1), std::span(b).first(1));
  EXPECT_EQ(single.mean, 2.0);
  EXPECT_EQ(single.low, 2.0);
  EXPECT_EQ(single.high, 2.0);
  EXPECT_EQ(sizes(differences(b, a)), (std::vector<double>{2.0, 3.0}));
}

TEST(Statistics, RejectsInputWithoutAnInterval) {
  const std::vector<double> one{1.0};
  const std::vector<double> two{1.0, 2.0};
  EXPECT_THROW(static_cast<void>(mean_interval(one)), core::Error);
  EXPECT_THROW(static_cast<void>(paired_interval(one, two)), core::Error);
  EXPECT_THROW(static_cast<void>(student_t_within(1.0, 0)), core::Error);
  const std::vector<double> not_a_number{1.0, std::nan("")};
  EXPECT_TRUE(std::isnan(mean_interval(not_a_number).mean));
  EXPECT_TRUE(std::isnan(larger(0.0, std::nan(""))) && std::isnan(larger(std::nan(""), 1.0)));
}

}  // namespace
}  // namespace folio::experiments
