// How attention is shared out for a step: which rows a warp takes together, and whether the parts of their positions
// are computed side by side. No choice here changes a result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/cuda/kernels.h"
#include "infer/forward/machine.h"

namespace folio::infer {

struct AttentionPlan {
  std::vector<gpu::AttentionItem> items{};
  uint32_t n_slots = 0;    ///< the most that an item has
  uint32_t max_parts = 0;  ///< a bound of the parts of any item that changes seldom; 0: one after the other
};

/// Bytes of the workspace that parts side by side take at most.
inline constexpr size_t kMostPartials = size_t{128} << 20U;

/// Rows of one sequence that follow each other are cut into what a warp takes. `window` is the positions that a row
/// sees.
[[nodiscard]] AttentionPlan plan_attention(std::span<const StepRow> rows, const gpu::Heads& heads,
                                           const gpu::CacheView& cache, int64_t window);

}  // namespace folio::infer
