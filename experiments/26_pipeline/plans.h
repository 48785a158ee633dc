// The schedules of the study: those of train/parallel/schedule.h, used for training, and two that are only simulated.
#pragma once

#include "experiments/26_pipeline/simulation.h"

namespace folio::experiments {

[[nodiscard]] Plan plan_1f1b(int64_t n_ranks, int64_t n_microbatches);
[[nodiscard]] Plan plan_interleaved(int64_t n_ranks, int64_t n_chunks, int64_t n_microbatches);

/// Returns "ZB1P": 1F1B with the backward pass split in two. The previous stage waits only for the gradient of the
/// input; the gradient of the weights is computed later, to fill idle time. Source: Qi et al., "Zero Bubble Pipeline
/// Parallelism", 2023, section 2.2, the schedule ZB-H1.
[[nodiscard]] Plan plan_zb1p(int64_t n_ranks, int64_t n_microbatches);

/// Returns "DualPipe": rank r of p holds stages r and p - 1 - r, and microbatches enter at both ends. A forward pass of
/// one direction is overlapped with a backward pass of the other. Throws core::Error unless both arguments are even
/// and n_microbatches >= 2 n_ranks.
/// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.1 and figure 5.
[[nodiscard]] Plan plan_dualpipe(int64_t n_ranks, int64_t n_microbatches);

}  // namespace folio::experiments
