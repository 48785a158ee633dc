// Trains small Llamas of several widths for several numbers of steps: the data for a scaling law.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_config.h"
#include "experiments/12_scaling/scaling_law.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// FLOPs of training per token. A multiply-add counts as two, and the backward pass costs twice the forward pass.
struct Operations {
  double matrices = 0.0;  ///< of products with weights: 6 · N for N parameters, without the embedding
  double head = 0.0;      ///< 6 · V · dim for the output matrix, the tied embedding (V, dim) that N excludes
  double attention =
      0.0;  ///< 12 · layers · T · dim: per position, T scores and a sum of T values (including masked ones)

  [[nodiscard]] double all() const { return matrices + head + attention; }
};

/// Training runs of each width for each number of steps: runs[i * steps.size() + j] has widths[i] and steps[j].
struct ScalingGrid {
  std::vector<int64_t> widths, steps;
  std::vector<ScalingRuns> runs{};
  core::ModelConfig shape{};  ///< configuration of all models, except for sizes derived from the width; set by train()

  [[nodiscard]] const ScalingRuns& at(size_t width, size_t step) const { return runs[width * steps.size() + step]; }

  /// Trains a model of each of `widths` for each of `steps` from each of report.seeds(), in parallel. Fills `runs`.
  /// Parameter counts exclude the embedding (Kaplan et al., "Scaling Laws for Neural Language Models", 2020,
  /// section 1.3).
  void train(const Report& report);

  /// Returns the FLOPs for a model of this shape with `parameters` parameters, not counting the embedding. The width
  /// that follows from `parameters` may be fractional.
  [[nodiscard]] Operations operations_per_token(double parameters) const;
};

}  // namespace folio::experiments
