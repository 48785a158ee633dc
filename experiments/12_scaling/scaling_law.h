// The loss as a law of the model's size and of the tokens that it was trained on, fitted to a few trainings, and the
// size that the law says a budget of computation is best spent on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace folio::experiments {

/// The x near `start` with the lowest f(x), by a simplex of x.size() + 1 points that walks downhill and needs no
/// gradient. `step` is the simplex's first size. Source: Nelder & Mead, "A Simplex Method for Function Minimization",
/// 1965, with their coefficients; started anew from where it ends until that gains nothing.
[[nodiscard]] std::vector<double> nelder_mead(const std::function<double(std::span<const double>)>& f,
                                              std::vector<double> start, double step);

struct ScalingPoint {
  double parameters = 0.0;
  double tokens = 0.0;
  double loss = 0.0;
};

/// L(N, D) = E + A / N^alpha + B / D^beta: what no model gets below, what a finite model lacks, and what finite
/// training lacks. Source: Hoffmann et al., "Training Compute-Optimal Large Language Models", 2022, section 3.3.
struct ScalingLaw {
  double E = 0.0, A = 0.0, alpha = 0.0, B = 0.0, beta = 0.0;

  [[nodiscard]] double loss(double parameters, double tokens) const;

  /// The point of least loss among those that cost `flops` = operations(N) D, where operations(N) are those of one
  /// token. For operations(N) = 6 N it is N = G (flops / 6)^(beta / (alpha + beta)), with
  /// G = (alpha A / (beta B))^(1 / (alpha + beta)). N is looked for from 100 to 1e15.
  [[nodiscard]] ScalingPoint optimum(double flops, const std::function<double(double parameters)>& operations) const;
};

/// The law with the least sum of (ln L(N, D) - ln loss)², all five numbers above 0. Throws core::Error for fewer than
/// five points, and for a point with a number that is not above 0.
[[nodiscard]] ScalingLaw fit_scaling_law(std::span<const ScalingPoint> points);

/// √(mean of (ln L(N, D) - ln loss)²): the typical relative error of the law.
[[nodiscard]] double relative_deviation(const ScalingLaw& law, std::span<const ScalingPoint> points);

/// One size, trained for one number of tokens from several seeds.
struct ScalingRuns {
  double parameters = 0.0;
  double tokens = 0.0;
  std::vector<double> losses{};

  [[nodiscard]] ScalingPoint mean() const;
};

/// `times` laws of what other seeds could have given: each draws from each of the runs as many losses as it has, with
/// replacement. They know of no error but the seed's: not of a law that is wrong, nor of a learning rate that is.
[[nodiscard]] std::vector<ScalingLaw> bootstrap(std::span<const ScalingRuns> runs, int times, uint64_t seed);

}  // namespace folio::experiments
