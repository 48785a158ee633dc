// Measures the RMS of gradients during training, by kind of matrix. SGD applies a single learning rate to all of them.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/shakespeare.h"
#include "train/config/train_config.h"

namespace folio::experiments {

struct GradientSize {
  std::string name;
  double rms = 0.0;             ///< root mean square over all elements of the gradient and all steps
  double share_without = -1.0;  ///< fraction of (row, step) pairs whose gradient is 0; negative if not counted
};

/// Trains with AdamW, with tied and with untied embeddings. Returns the RMS of the clipped gradients for each kind of
/// matrix in the blocks, and for the embedding rows of the ten rarest and of the ten most frequent characters.
[[nodiscard]] std::vector<GradientSize> gradient_sizes(const Shakespeare& text, const train::TrainConfig& setting);

}  // namespace folio::experiments
