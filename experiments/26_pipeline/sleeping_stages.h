// A pipeline of processes whose stages sleep instead of computing: what run_pipeline() really takes, against the count.
#pragma once

#include <filesystem>

#include "experiments/26_pipeline/simulation.h"
#include "train/parallel/launch.h"

namespace folio::experiments {

/// In microseconds, of one of `plan`'s stages. A chunk of an interleaved rank takes its part of the time.
struct Slept {
  Plan plan;
  Times times;
};

/// 1F1B and interleaved schedules of this many ranks.
[[nodiscard]] std::vector<Slept> plans_to_sleep(int64_t n_ranks, int64_t n_microbatches, int64_t forward_us);

/// Runs the plans as one of their ranks; rank 0 writes what all did into `file`, JSON.
void sleep_as_rank(const train::parallel::Launch& launch, const std::vector<Slept>& plans,
                   const std::filesystem::path& file);

/// What the ranks did, in microseconds since the first began.
[[nodiscard]] std::vector<Timeline> read_timelines(const std::filesystem::path& file);

/// How many actions were done in another order than the plan's, or began before what they take was there.
[[nodiscard]] int64_t count_out_of_order(const Plan& plan, const Timeline& timeline);

}  // namespace folio::experiments
