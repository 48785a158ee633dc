// Splits a step's attention into items of up to sixteen (row, head) pairs, and decides whether an item's positions are
// split among warps or computed by a single warp. The plan never affects results.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/cuda/kernels.h"
#include "infer/forward/machine.h"

namespace folio::infer {

struct AttentionPlan {
  std::vector<gpu::AttentionItem> items{};
  uint32_t n_slots = 0;    ///< maximum number of (row, head) pairs of an AttentionItem
  uint32_t max_parts = 0;  ///< upper bound on an item's parts of 64 positions; 0: one warp computes all parts
};

/// Maximum size in bytes of Attention::partials. If it would be exceeded, positions aren't split among warps.
inline constexpr size_t kMostPartials = size_t{128} << 20U;

/// Plans the attention of a step. Each AttentionItem has adjacent rows of one sequence, or some heads of one row.
/// `window` is the maximum number of positions that a row attends to.
[[nodiscard]] AttentionPlan plan_attention(std::span<const StepRow> rows, const gpu::Heads& heads,
                                           const gpu::CacheView& cache, int64_t window);

}  // namespace folio::infer
