// The heads of models that were trained on text: the reader's own, and SmolLM2.
#pragma once

#include <vector>

#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// Scores all heads of the newest model of runs/ and, if it is there, of SmolLM2; in short form, only of the small
/// model of tests. Shows and checks what their best heads do, and what the models lack without them. Returns the
/// weights of each model's head with the largest prefix-matching score, for a picture.
[[nodiscard]] std::vector<HeatMap::Panel> inspect_models(Report& report);

}  // namespace folio::experiments
