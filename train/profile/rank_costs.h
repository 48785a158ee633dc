// What each rank holds and sends: measured, beside the formulas (train/parallel/costs.h).
#pragma once

#include <string>

#include "train/report/memory_use.h"
#include "train/run/trainer.h"

namespace folio::train {

/// Trains for some steps. `memory` has counted since before the trainer was made. All ranks call it; the first one gets
/// the table, the others an empty text.
[[nodiscard]] std::string measure_rank_costs(Trainer& trainer, MemoryUse& memory, const parallel::RankOptions& options);

}  // namespace folio::train
