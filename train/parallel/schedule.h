// The order in which each rank of a pipeline works, as data that pipeline.h runs. Does not need LibTorch.
//
//   1F1B, 3 ranks, 4 microbatches        Each rank begins with as many forward passes as there are ranks after it;
//     0   F0 F1 F2       B0 F3 B1 B2 B3  then backward and forward passes alternate. So rank r of p never has
//     1      F0 F1    B0 F2 B1 F3 B2 B3  activations of more than p - r microbatches, however many there are.
//     2         F0 B0 F1 B1 F2 B2 F3 B3
//
// Interleaved: rank r has v chunks of layers, stages r, r + p, r + 2p, … of p · v. A microbatch goes around v times,
// and the pipeline fills up in a v-th of the time.
#pragma once

#include <cstdint>
#include <vector>

namespace folio::train::parallel {

struct Action {
  /// The last two, for simulations only, are halves of a backward pass: the gradients of the input and of the weights.
  enum class Kind { Forward, Backward, BackwardInput, BackwardWeights };
  Kind kind;
  int64_t chunk;  ///< of the rank's own, 0 .. n_chunks - 1
  int64_t microbatch;
  bool operator==(const Action&) const = default;
};

/// The actions of each rank. One begins when the one before has ended and its input has come.
using Schedule = std::vector<std::vector<Action>>;

/// Microbatches go around in groups of n_stages, or of some more where that does not divide their number. With one
/// chunk it is 1F1B. Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021,
/// sections 2.2.1 and 2.2.2.
[[nodiscard]] Schedule interleaved(int64_t n_stages, int64_t n_chunks, int64_t n_microbatches);

}  // namespace folio::train::parallel
