// Simulates a schedule with a fixed time per kind of action and instant communication: when each rank does what, its
// idle time, and the number of microbatches whose activations it holds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/parallel/schedule.h"

namespace folio::experiments {

/// The simultaneous actions of a rank: a single one, or a forward pass overlapped with the backward pass of another
/// microbatch, so that communication and computation overlap.
using Together = std::vector<train::parallel::Action>;

/// A schedule and the assignment of stages to ranks.
struct Plan {
  std::string name;
  std::vector<std::vector<Together>> ranks;
  int64_t n_stages;                                              ///< number of stages in the model
  int64_t n_chunks;                                              ///< number of stages on each rank
  std::function<int64_t(int64_t rank, int64_t chunk)> stage_of;  ///< stage of a rank's chunk

  [[nodiscard]] int64_t n_ranks() const { return static_cast<int64_t>(ranks.size()); }
  /// Returns the number of copies of the model on all ranks together.
  [[nodiscard]] int64_t n_models() const { return n_ranks() * n_chunks / n_stages; }
};

/// The times of one stage's actions, in any unit. Integers, so that results are exact.
struct Times {
  int64_t forward, backward_input, backward_weights;
  int64_t both;  ///< time of a forward pass overlapped with a backward pass

  [[nodiscard]] int64_t backward() const { return backward_input + backward_weights; }
};

struct Box {
  Together actions;
  int64_t start, end;
};

/// The simulated or measured actions of each rank, in order of time.
using Timeline = std::vector<std::vector<Box>>;

/// Simulates a plan: each action begins when the rank's previous one has ended and its inputs are available. On
/// deadlock, throws a core::Error that names a rank and its action.
[[nodiscard]] Timeline simulate(const Plan& plan, const Times& times);

[[nodiscard]] int64_t end_of(const Timeline& timeline);
/// Returns each rank's idle time until the last rank has ended.
[[nodiscard]] std::vector<int64_t> idle_times(const Timeline& timeline);
/// Returns, for each rank, the maximum number of microbatches whose activations it stores at the same time. Each stage
/// that stores a microbatch counts as n_ranks / n_stages of it, such as 1/2 if the model has 2 n_ranks stages.
[[nodiscard]] std::vector<double> most_held(const Plan& plan);

}  // namespace folio::experiments
