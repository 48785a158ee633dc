// Tests that fitting a scaling law to points computed from a known law recovers that law.
#include "experiments/12_scaling/scaling_law.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace folio::experiments {
namespace {

// The scaling law that Hoffmann et al. fitted to their models (equation 10).
constexpr ScalingLaw kHoffmann{.E = 1.69, .A = 406.4, .alpha = 0.34, .B = 410.7, .beta = 0.28};

std::vector<ScalingPoint> points_of(const ScalingLaw& law, double noise = 0.0) {
  std::vector<ScalingPoint> points;
  for (const double n : {1e7, 3e7, 1e8, 3e8, 1e9}) {
    for (const double d : {1e9, 1e10, 1e11, 1e12}) {
      const double sign = core::random_below(7, points.size(), 2) == 0 ? -1.0 : 1.0;
      points.push_back({n, d, law.loss(n, d) * (1.0 + sign * noise)});
    }
  }
  return points;
}

TEST(ScalingLaw, RecoversTheGeneratingLaw) {
  const ScalingLaw found = fit_scaling_law(points_of(kHoffmann));
  EXPECT_NEAR(found.E, kHoffmann.E, 0.01);
  EXPECT_NEAR(found.alpha, kHoffmann.alpha, 0.005);
  EXPECT_NEAR(found.beta, kHoffmann.beta, 0.005);
  EXPECT_NEAR(std::log(found.A), std::log(kHoffmann.A), 0.1);
  EXPECT_NEAR(std::log(found.B), std::log(kHoffmann.B), 0.1);
  EXPECT_LT(relative_deviation(found, points_of(kHoffmann)), 1e-4);
}

TEST(ScalingLaw, RelativeDeviationMatchesTheNoise) {
  const auto points = points_of(kHoffmann, 0.01);
  const double deviation = relative_deviation(fit_scaling_law(points), points);
  EXPECT_LT(deviation, 0.0101);
  EXPECT_GT(deviation, 0.004);
}

TEST(ScalingLaw, OptimumIsBestAtItsCost) {
  const auto operations = [](double n) { return 6.0 * n + 5e4 * std::sqrt(n); };
  for (const double flops : {1e18, 1e20, 1e22}) {
    const ScalingPoint best = kHoffmann.optimum(flops, operations);
    EXPECT_NEAR(operations(best.parameters) * best.tokens / flops, 1.0, 1e-9);
    for (const double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
      const double n = best.parameters * factor;
      EXPECT_GT(kHoffmann.loss(n, flops / operations(n)), best.loss);
    }
  }
}

// The optimal number of parameters follows from equation 4 of Hoffmann et al.
TEST(ScalingLaw, OptimumMatchesHoffmannsFormula) {
  const auto [E, A, alpha, B, beta] = kHoffmann;
  const double g = std::pow(alpha * A / (beta * B), 1.0 / (alpha + beta));
  for (const double flops : {1e18, 1e22}) {
    const double n = g * std::pow(flops / 6.0, beta / (alpha + beta));
    EXPECT_NEAR(kHoffmann.optimum(flops, [](double m) { return 6.0 * m; }).parameters / n, 1.0, 1e-5);
  }
}

TEST(ScalingLaw, BootstrapOfEqualRunsIsTheFit) {
  std::vector<ScalingRuns> runs;
  for (const ScalingPoint& p : points_of(kHoffmann)) runs.push_back({p.parameters, p.tokens, {p.loss, p.loss, p.loss}});
  for (const ScalingLaw& law : bootstrap(runs, 3, 1)) EXPECT_NEAR(law.alpha, kHoffmann.alpha, 0.005);
}

TEST(ScalingLaw, RejectsTooFewPointsAndNonPositiveValues) {
  auto points = points_of(kHoffmann);
  EXPECT_THROW((void)fit_scaling_law(std::span(points).first(4)), core::Error);
  points[3].loss = 0.0;
  EXPECT_THROW((void)fit_scaling_law(points), core::Error);
  points[3].loss = NAN;
  EXPECT_THROW((void)fit_scaling_law(points), core::Error);
}

}  // namespace
}  // namespace folio::experiments
