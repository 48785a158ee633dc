// How large the gradients of a model's parts are in training: what one learning rate for all of them has to serve.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/shakespeare.h"
#include "train/config/train_config.h"

namespace folio::experiments {

struct GradientSize {
  std::string name;
  double rms = 0.0;             ///< of a number of the gradient, over all steps
  double share_without = -1.0;  ///< of the (row, step) pairs whose gradient is 0; below 0: was not counted
};

/// Trains by AdamW, and looks at the clipped gradients of each step: those of each kind of matrix of the blocks, and
/// those of the embedding's rows for the ten rarest and the ten commonest characters of the training split, with the
/// output tied to the embedding and with an output matrix of its own.
[[nodiscard]] std::vector<GradientSize> gradient_sizes(const Shakespeare& text, const train::TrainConfig& setting);

}  // namespace folio::experiments
