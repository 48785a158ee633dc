// The schedules that are compared: those of train/parallel/schedule.h, with which Folio trains, and two that are only
// simulated here.
#pragma once

#include "experiments/26_pipeline/simulation.h"

namespace folio::experiments {

[[nodiscard]] Plan plan_1f1b(int64_t n_ranks, int64_t n_microbatches);
[[nodiscard]] Plan plan_interleaved(int64_t n_ranks, int64_t n_chunks, int64_t n_microbatches);

/// "ZB1P": 1F1B, with the backward pass in two halves. A stage waits only for the half that makes the gradient of the
/// input; the other half is done later, when there is nothing else to do.
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 2.2, the schedule ZB-H1.
[[nodiscard]] Plan plan_zb1p(int64_t n_ranks, int64_t n_microbatches);

/// "DualPipe": every rank has two stages, r and p - 1 - r, and microbatches come in at both ends. A forward pass of one
/// direction is done together with a backward pass of the other. Throws core::Error unless the number of ranks is even
/// and that of microbatches even and at least twice that of ranks.
/// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.1 and figure 5.
[[nodiscard]] Plan plan_dualpipe(int64_t n_ranks, int64_t n_microbatches);

}  // namespace folio::experiments
