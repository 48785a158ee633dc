// Pipeline schedules, without LibTorch: the order of forward and backward passes on each rank, which pipeline.h runs.
//
//   1F1B, 3 ranks, 4 microbatches        Each rank starts with one forward pass per rank after it; then forward and
//     0   F0 F1 F2       B0 F3 B1 B2 B3  backward passes alternate. Rank r of p stores activations of at most p - r
//     1      F0 F1    B0 F2 B1 F3 B2 B3  microbatches, independent of their number.
//     2         F0 B0 F1 B1 F2 B2 F3 B3  F2, B2: forward and backward pass of microbatch 2.
//
// Interleaved: rank r has v chunks of layers, stages r, r + p, r + 2p, … of p · v. A microbatch passes each rank v
// times, and the pipeline fills in 1/v of the time.
#pragma once

#include <cstdint>
#include <vector>

namespace folio::train::parallel {

struct Action {
  /// BackwardInput and BackwardWeights are the halves of a backward pass that compute the gradients of the input and of
  /// the weights; used in simulations only.
  enum class Kind { Forward, Backward, BackwardInput, BackwardWeights };
  Kind kind;
  int64_t chunk;  ///< index of the rank's chunk, 0 .. n_chunks - 1
  int64_t microbatch;
  bool operator==(const Action&) const = default;
};

/// The actions of each rank, in order. An action starts when the previous one has ended and its input has arrived.
using Schedule = std::vector<std::vector<Action>>;

/// Returns the interleaved 1F1B schedule, which is plain 1F1B with one chunk. Microbatches are processed in groups of
/// n_stages, or larger groups if n_stages does not divide n_microbatches; fewer microbatches are one group. Source:
/// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021, sections 2.2.1 and 2.2.2.
[[nodiscard]] Schedule interleaved(int64_t n_stages, int64_t n_chunks, int64_t n_microbatches);

}  // namespace folio::train::parallel
