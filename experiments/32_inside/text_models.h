// Finds induction heads in models trained on text: the reader's own, and SmolLM2.
#pragma once

#include <vector>

#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// Scores all heads of the newest model in runs/ and of SmolLM2, if it was downloaded; in short form, only of the small
/// test model. Reports the losses with selected heads disabled. Returns a picture panel per model, with the attention
/// weights of the head with the largest prefix-matching score.
[[nodiscard]] std::vector<HeatMap::Panel> inspect_models(Report& report);

}  // namespace folio::experiments
