// Statistical tests of the engine's sampler, on logits of a trained model.
#pragma once

#include <span>

#include "experiments/common/report.h"

namespace folio::experiments {

/// Checks that the frequencies of many draws match the distribution, and not a similar one, by a χ² test; and that a
/// draw depends only on the logits, the seed and the position.
void check_draws(Report& report, std::span<const float> logits);

}  // namespace folio::experiments
