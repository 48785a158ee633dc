// Measures the RMS of gradients during training, by kind of matrix. SGD applies a single learning rate to all of them.
#pragma once

#include <torch/types.h>

#include <cmath>
#include <string>
#include <vector>

#include "experiments/common/shakespeare.h"
#include "train/config/train_config.h"

namespace folio::experiments {

struct GradientSize {
  std::string name;
  double squares = 0.0, elements = 0.0;    ///< sum of the squares, and number, of the gradients' elements in all steps
  double rows = 0.0, rows_of_zeros = 0.0;  ///< number of rows in all steps, and of those whose gradient is 0

  void add(const torch::Tensor& gradient_RD);  ///< adds a step's gradient
  [[nodiscard]] double rms() const { return std::sqrt(squares / elements); }
  [[nodiscard]] double share_of_zeros() const { return rows_of_zeros / rows; }
};

/// Trains with AdamW, with tied and with untied embeddings. Returns the sizes of the clipped gradients for the
/// embedding rows of the ten rarest and of the ten most frequent characters, and, after those of the tied ones, for
/// each kind of matrix in the blocks.
[[nodiscard]] std::vector<GradientSize> gradient_sizes(const Shakespeare& text, const train::TrainConfig& setting);

}  // namespace folio::experiments
