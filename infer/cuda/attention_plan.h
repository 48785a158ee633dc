// Splits a step's attention into items, each computed by one warp, and decides whether the positions of a long item are
// split among warps. The plan never affects results.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/cuda/kernels.h"
#include "infer/forward/machine.h"

namespace folio::infer {

struct AttentionPlan {
  std::vector<gpu::AttentionItem> items{};
  uint32_t n_slots = 0;    ///< maximum number of (row, head) slots of an item
  uint32_t max_parts = 0;  ///< upper bound on the parts of an item, a power of two; 0: computed sequentially
};

/// Maximum workspace for parallel parts, in bytes.
inline constexpr size_t kMostPartials = size_t{128} << 20U;

/// Returns the plan of a step: items of adjacent rows of a sequence. `window` is the maximum number of positions
/// that a row attends to.
[[nodiscard]] AttentionPlan plan_attention(std::span<const StepRow> rows, const gpu::Heads& heads,
                                           const gpu::CacheView& cache, int64_t window);

}  // namespace folio::infer
