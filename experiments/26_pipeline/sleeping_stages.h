// Calls run_pipeline() in several processes with stages that sleep instead of computing, to compare its real timeline
// with the simulated one.
#pragma once

#include <filesystem>

#include "experiments/26_pipeline/simulation.h"
#include "train/parallel/launch.h"

namespace folio::experiments {

/// A plan and the sleep times of one stage's actions, in microseconds. If each rank has several stages (interleaved),
/// plans_to_sleep() divides the times by the stages per rank, so that the whole model takes as long as with 1F1B.
struct Slept {
  Plan plan;
  Times times;
};

/// Returns a 1F1B plan and an interleaved plan with 2 stages per rank. In both, a rank's forward pass takes
/// `forward_us` microseconds per microbatch, and its backward pass twice that.
[[nodiscard]] std::vector<Slept> plans_to_sleep(int64_t n_ranks, int64_t n_microbatches, int64_t forward_us);

/// Runs the plans as rank launch.rank. Rank 0 writes the timelines of all ranks to `file`, as JSON.
void sleep_as_rank(const train::parallel::Launch& launch, const std::vector<Slept>& plans,
                   const std::filesystem::path& file);

/// Reads a file of sleep_as_rank(). Returns each plan's timeline, in microseconds since the first action began.
[[nodiscard]] std::vector<Timeline> read_timelines(const std::filesystem::path& file);

/// Counts the actions that ran in a different order than planned, or began before their inputs were available.
[[nodiscard]] int64_t count_out_of_order(const Plan& plan, const Timeline& timeline);

}  // namespace folio::experiments
