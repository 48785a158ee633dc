// Runs pipeline schedules in several processes, with stages that sleep instead of computing, to compare the measured
// timelines with the simulated ones.
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

/// Runs the plans one after the other as rank launch.rank; all ranks must call it. Rank 0 writes the timelines of all
/// ranks to `file`, as JSON.
void sleep_as_rank(const train::parallel::Launch& launch, const std::vector<Slept>& plans,
                   const std::filesystem::path& file);

/// Reads the file that sleep_as_rank() wrote. Returns a timeline per plan, in microseconds since the
/// first action of that plan began.
[[nodiscard]] std::vector<Timeline> read_timelines(const std::filesystem::path& file);

/// Counts the actions that ran in a different order than planned, or began before their inputs were available.
[[nodiscard]] int64_t count_out_of_order(const Plan& plan, const Timeline& timeline);

}  // namespace folio::experiments
