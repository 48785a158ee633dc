// Finds induction heads in models trained on text: the reader's own, and SmolLM2.
#pragma once

#include <vector>

#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// Scores all heads of the newest model of runs/ and of SmolLM2, if downloaded; in short form, only of the tests' small
/// model. Reports the losses with the best heads disabled. Returns the attention weights of each model's head with the
/// largest prefix-matching score, for a picture.
[[nodiscard]] std::vector<HeatMap::Panel> inspect_models(Report& report);

}  // namespace folio::experiments
