#include "experiments/12_scaling/scaling_law.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"

namespace folio::experiments {
namespace {

using Point = std::vector<double>;
using Function = std::function<double(std::span<const double>)>;

struct Corner {
  Point x;
  double value;
};

Point between(const Point& a, const Point& b, double t) {
  Point x(a.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = a[i] + t * (b[i] - a[i]);
  return x;
}

Corner walk_downhill(const Function& f, const Point& start, double step) {
  const auto corner = [&](Point x) {
    const double value = f(x);
    return Corner{std::move(x), value};
  };
  std::vector<Corner> simplex{corner(start)};
  for (size_t i = 0; i < start.size(); ++i) {
    Point x = start;
    x[i] += step;
    simplex.push_back(corner(std::move(x)));
  }
  const auto lower = [](const Corner& a, const Corner& b) { return a.value < b.value; };
  constexpr int kMostSteps = 2000;
  for (int i = 0; i < kMostSteps; ++i) {
    std::sort(simplex.begin(), simplex.end(), lower);
    Corner& worst = simplex.back();
    if (worst.value - simplex.front().value <= 1e-14 * (1.0 + std::abs(simplex.front().value))) break;
    Point centre(start.size(), 0.0);  // centroid of all corners except the worst
    for (auto c = simplex.begin(); c + 1 != simplex.end(); ++c) {
      for (size_t k = 0; k < centre.size(); ++k) centre[k] += c->x[k] / static_cast<double>(start.size());
    }
    const Corner reflected = corner(between(centre, worst.x, -1.0));
    if (reflected.value < simplex.front().value) {
      const Corner further = corner(between(centre, worst.x, -2.0));
      worst = further.value < reflected.value ? further : reflected;
    } else if (reflected.value < simplex[simplex.size() - 2].value) {
      worst = reflected;
    } else {
      const bool outside = reflected.value < worst.value;
      const Corner nearer = corner(between(centre, outside ? reflected.x : worst.x, 0.5));
      if (nearer.value < std::min(reflected.value, worst.value)) {
        worst = nearer;
      } else {
        for (auto c = simplex.begin() + 1; c != simplex.end(); ++c) *c = corner(between(simplex.front().x, c->x, 0.5));
      }
    }
  }
  return *std::min_element(simplex.begin(), simplex.end(), lower);
}

// Returns a local minimum x of f near `start`, found by the Nelder-Mead simplex method, which needs no gradient. `step`
// is the initial size of the simplex. Restarts from the result until it no longer improves. Source: Nelder & Mead, "A
// Simplex Method for Function Minimization", 1965, with their coefficients.
Point nelder_mead(const Function& f, const Point& start, double step) {
  Corner best{start, f(start)};
  for (;;) {
    Corner next = walk_downhill(f, best.x, step);
    const bool gained = next.value < best.value - 1e-9 * std::abs(best.value);
    if (next.value < best.value) best = std::move(next);
    if (!gained) return best.x;
  }
}

// Geometric means of N and D over the points. Instead of A and B, which vary by orders of magnitude with the exponents,
// the fit uses the terms A / N^alpha and B / D^beta at these means.
struct Middle {
  double parameters, tokens;
};

Middle middle_of(std::span<const ScalingPoint> points) {
  double n = 0.0, d = 0.0;
  for (const ScalingPoint& p : points) {
    n += std::log(p.parameters) / static_cast<double>(points.size());
    d += std::log(p.tokens) / static_cast<double>(points.size());
  }
  return {std::exp(n), std::exp(d)};
}

// Returns the law for x = (ln E, ln (A / N^alpha), ln alpha, ln (B / D^beta), ln beta), with N and D of `middle`.
ScalingLaw law_of(std::span<const double> x, const Middle& middle) {
  ScalingLaw law{.E = std::exp(x[0]), .alpha = std::exp(x[2]), .beta = std::exp(x[4])};
  law.A = std::exp(x[1]) * std::pow(middle.parameters, law.alpha);
  law.B = std::exp(x[3]) * std::pow(middle.tokens, law.beta);
  return law;
}

}  // namespace

double ScalingLaw::loss(double parameters, double tokens) const {
  return E + A * std::pow(parameters, -alpha) + B * std::pow(tokens, -beta);
}

ScalingPoint ScalingLaw::optimum(double flops, const std::function<double(double)>& operations) const {
  const auto loss_of = [&](double log_n) { return loss(std::exp(log_n), flops / operations(std::exp(log_n))); };
  // Ternary search over ln N: for a fixed budget, the loss has a single minimum.
  double low = std::log(100.0), high = std::log(1e15);
  while (high - low > 1e-9) {
    const double third = (high - low) / 3.0;
    if (loss_of(low + third) < loss_of(high - third)) {
      high -= third;
    } else {
      low += third;
    }
  }
  const double n = std::exp(low);
  return {n, flops / operations(n), loss_of(low)};
}

ScalingLaw fit_scaling_law(std::span<const ScalingPoint> points) {
  core::require(points.size() >= 5, "a law of five numbers needs at least five points, not {}", points.size());
  double lowest = INFINITY;
  for (const ScalingPoint& p : points) {
    core::require(p.parameters > 0.0 && p.tokens > 0.0 && p.loss > 0.0,
                  "parameters, tokens and losses must be above 0, but are {}, {} and {}", p.parameters, p.tokens,
                  p.loss);
    lowest = std::min(lowest, p.loss);
  }
  const Middle middle = middle_of(points);
  const auto deviation = [&](std::span<const double> x) {
    const double value = relative_deviation(law_of(x, middle), points);
    return std::isfinite(value) ? value : HUGE_VAL;
  };
  // The objective has several local minima, so start from several points.
  Point best;
  for (const double alpha : {0.3, 0.7, 1.5}) {
    for (const double beta : {0.3, 0.7, 1.5}) {
      const Point x = nelder_mead(
          deviation,
          {std::log(0.7 * lowest), std::log(0.1 * lowest), std::log(alpha), std::log(0.1 * lowest), std::log(beta)},
          0.5);
      if (best.empty() || deviation(x) < deviation(best)) best = x;
    }
  }
  return law_of(best, middle);
}

double relative_deviation(const ScalingLaw& law, std::span<const ScalingPoint> points) {
  double sum = 0.0;
  for (const ScalingPoint& p : points) {
    const double difference = std::log(law.loss(p.parameters, p.tokens) / p.loss);
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(points.size()));
}

ScalingPoint ScalingRuns::mean() const {
  core::require(!losses.empty(), "a size that was not trained has no loss");
  return {parameters, tokens, std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size())};
}

std::vector<ScalingLaw> bootstrap(std::span<const ScalingRuns> runs, int times, uint64_t seed) {
  std::vector<ScalingLaw> laws;
  uint64_t draws = 0;
  for (int i = 0; i < times; ++i) {
    std::vector<ScalingPoint> points;
    for (const ScalingRuns& run : runs) {
      ScalingRuns drawn = run;
      for (double& loss : drawn.losses) loss = run.losses.at(core::random_below(seed, draws++, run.losses.size()));
      points.push_back(drawn.mean());
    }
    laws.push_back(fit_scaling_law(points));
  }
  return laws;
}

}  // namespace folio::experiments
