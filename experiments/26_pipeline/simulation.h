// What a schedule takes, if each action takes the time of its kind and sending takes none: when each rank does what,
// how long it has nothing to do, and of how many microbatches it holds the activations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/parallel/schedule.h"

namespace folio::experiments {

/// What a rank does at once: one action, or a forward pass beside the backward pass of another microbatch, whose
/// sending and computing fill each other's gaps.
using Together = std::vector<train::parallel::Action>;

/// A schedule, and where its stages are.
struct Plan {
  std::string name;
  std::vector<std::vector<Together>> ranks;
  int64_t n_stages;                                              ///< of the model
  int64_t n_chunks;                                              ///< stages that a rank holds
  std::function<int64_t(int64_t rank, int64_t chunk)> stage_of;  ///< which they are

  [[nodiscard]] int64_t n_ranks() const { return static_cast<int64_t>(ranks.size()); }
  /// How often all ranks together hold the model.
  [[nodiscard]] int64_t n_models() const { return n_ranks() * n_chunks / n_stages; }
};

/// Of one stage's work, in any unit; whole numbers, so that counts are exact.
struct Times {
  int64_t forward, backward_input, backward_weights;
  int64_t both;  ///< a forward and a backward pass together

  [[nodiscard]] int64_t backward() const { return backward_input + backward_weights; }
};

struct Box {
  Together actions;
  int64_t start, end;
};

/// (ranks, what they do)
using Timeline = std::vector<std::vector<Box>>;

/// Each action begins as soon as the rank has ended the one before and what it takes is there. Throws core::Error that
/// names a rank and its action where all wait for each other.
[[nodiscard]] Timeline simulate(const Plan& plan, const Times& times);

[[nodiscard]] int64_t end_of(const Timeline& timeline);
/// Of each rank: the time until the last rank has ended in which it does nothing.
[[nodiscard]] std::vector<int64_t> idle_times(const Timeline& timeline);
/// Of each rank: the most (stage, microbatch) pairs that had gone forward and not yet fully back, in stages of one of
/// n_ranks: a chunk of an interleaved rank is a part of one.
[[nodiscard]] std::vector<double> most_held(const Plan& plan);

}  // namespace folio::experiments
