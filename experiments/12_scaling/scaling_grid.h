// Small Llamas of several widths, each trained for several numbers of steps: what a scaling law is fitted to.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_config.h"
#include "experiments/12_scaling/scaling_law.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// Floating-point operations of training on one token. A multiplication with its addition is two, and the backward pass
/// costs twice the forward pass.
struct Operations {
  double matrices = 0.0;  ///< 6 N
  double head = 0.0;      ///< 6 V dim: its matrix is the embedding, which N leaves out
  double attention =
      0.0;  ///< 12 layers T dim: T scores, and a sum of T values, for each position (masked ones as well)

  [[nodiscard]] double all() const { return matrices + head + attention; }
};

/// runs[i * steps.size() + j] has widths[i] and steps[j].
struct ScalingGrid {
  std::vector<int64_t> widths, steps;
  std::vector<ScalingRuns> runs{};
  core::ModelConfig shape{};  ///< of all of them, but for what follows from the width

  [[nodiscard]] const ScalingRuns& at(size_t width, size_t step) const { return runs[width * steps.size() + step]; }

  /// Fills in `runs`: each anew from its first values, on each of report.seeds(), several at once. Parameters are all
  /// but the embedding (Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 1.3).
  void train(const Report& report);

  /// Of a model of this shape with so many parameters beside the embedding, whatever width that means.
  [[nodiscard]] Operations operations_per_token(double parameters) const;
};

}  // namespace folio::experiments
