// The bytes that a rank holds and sends, by formulas that measurements are compared with. Elements have 4 bytes, like
// the trainer's parameters and, without --dtype bf16, its activations.
#pragma once

#include <string>
#include <vector>

#include "train/config/train_config.h"
#include "train/parallel/mesh.h"

namespace folio::train::parallel {

struct Costs {
  double parameters = 0.0;
  double gradients = 0.0;  ///< held between the backward pass and the update
  double optimizer = 0.0;  ///< its state
  struct Sent {
    std::string what;
    double bytes;  ///< of one step
  };
  std::vector<Sent> sent;  ///< those above 0

  [[nodiscard]] double bytes_sent() const;
};

/// With --zero it is the mean over the ranks that share a parameter. Assumes that experts are chosen equally often.
[[nodiscard]] Costs costs_of(const TrainConfig& config, const Mesh& mesh);

}  // namespace folio::train::parallel
