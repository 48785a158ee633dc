// Statistical tests of the engine's sampler, on logits of a trained model.
#pragma once

#include <span>

#include "experiments/common/report.h"

namespace folio::experiments {

/// Checks by a χ² test that the frequencies of many draws match the distribution, and that the test detects a wrong
/// temperature. Checks that a draw depends only on the logits, the seed and the position.
void check_draws(Report& report, std::span<const float> logits);

}  // namespace folio::experiments
