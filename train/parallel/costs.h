// Predicts the bytes that a rank stores and sends; reports and tests compare measurements with these formulas. Elements
// have 4 bytes, like the trainer's parameters and, without --dtype bf16, its activations.
#pragma once

#include <string>
#include <vector>

#include "train/config/train_config.h"
#include "train/parallel/mesh.h"

namespace folio::train::parallel {

struct Costs {
  double parameters = 0.0;
  double gradients = 0.0;  ///< bytes stored between the backward pass and the update
  double optimizer = 0.0;
  struct Sent {
    std::string what;
    double bytes;  ///< sent per optimizer step
  };
  std::vector<Sent> sent;  ///< one element per kind of transfer with bytes > 0

  [[nodiscard]] double bytes_sent() const;
};

/// Returns one rank's costs in bytes; with --zero, averages over the data ranks. Assumes evenly loaded experts.
[[nodiscard]] Costs costs_of(const TrainConfig& config, const Mesh& mesh);

}  // namespace folio::train::parallel
