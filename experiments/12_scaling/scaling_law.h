// A scaling law: the loss as a function of model size and training tokens, fitted to small training runs, and the
// optimal model size for a compute budget.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace folio::experiments {

struct ScalingPoint {
  double parameters = 0.0;
  double tokens = 0.0;
  double loss = 0.0;
};

/// The loss of a model with N parameters after training on D tokens: L(N, D) = E + A / N^alpha + B / D^beta. E is
/// irreducible; the other terms are due to the finite model size and the finite amount of data.
/// Source: Hoffmann et al., "Training Compute-Optimal Large Language Models", 2022.
struct ScalingLaw {
  double E = 0.0, A = 0.0, alpha = 0.0, B = 0.0, beta = 0.0;

  [[nodiscard]] double loss(double parameters, double tokens) const;

  /// Returns the N and D with the lowest loss for a budget of `flops` = operations(N) · D, where operations(N) are the
  /// FLOPs per token. N is searched from 100 to 1e15.
  [[nodiscard]] ScalingPoint optimum(double flops, const std::function<double(double parameters)>& operations) const;
};

/// Fits a law with positive constants by least squares of ln L(N, D) - ln loss. Throws core::Error for fewer than five
/// points, or a point with a value that is not positive.
[[nodiscard]] ScalingLaw fit_scaling_law(std::span<const ScalingPoint> points);

/// Returns √(mean of (ln L(N, D) - ln loss)²), the typical relative error of the law.
[[nodiscard]] double relative_deviation(const ScalingLaw& law, std::span<const ScalingPoint> points);

/// The losses of models of the same size, trained on the same number of tokens with different seeds.
struct ScalingRuns {
  double parameters = 0.0;
  double tokens = 0.0;
  std::vector<double> losses{};

  [[nodiscard]] ScalingPoint mean() const;
};

/// Returns `times` laws, each fitted to a bootstrap sample: the losses of each run are resampled with replacement.
/// Their spread reflects only the seeds, not a wrong form of the law or a wrong learning rate.
[[nodiscard]] std::vector<ScalingLaw> bootstrap(std::span<const ScalingRuns> runs, int times, uint64_t seed);

}  // namespace folio::experiments
