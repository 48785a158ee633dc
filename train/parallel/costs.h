// What a rank holds and sends, by counting: the formulas that measured bytes are compared with. All in bytes; numbers
// have 4, as the trainer's parameters, and its activations without --dtype bf16, have them.
#pragma once

#include <string>
#include <vector>

#include "train/parallel/mesh.h"
#include "train/config/train_config.h"

namespace folio::train::parallel {

struct Costs {
  double parameters = 0.0;
  double gradients = 0.0;  ///< held between the backward pass and the update
  double optimizer = 0.0;  ///< its state
  struct Sent {
    std::string what;
    double bytes;  ///< of one step
  };
  std::vector<Sent> sent;  ///< what is sent at all

  [[nodiscard]] double bytes_sent() const;
};

/// `pipeline_chunks` and `zero` are the flags of these names. Of zero's stages it is the mean over the ranks that share
/// a parameter: which of them owns it depends on sizes. Experts are taken to be chosen equally often.
[[nodiscard]] Costs costs_of(const TrainConfig& config, const Mesh& mesh, int64_t pipeline_chunks = 1,
                             int64_t zero = 0);

}  // namespace folio::train::parallel
