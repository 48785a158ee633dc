// Laws of the engine's sampler, on logits of a real model.
#pragma once

#include <span>

#include "experiments/common/report.h"

namespace folio::experiments {

/// Claims that the frequencies of many draws are the distribution's, and not a neighbouring one's, within the bound of
/// a χ² test; and that a draw depends on the logits, the seed and the position alone.
void claim_laws_of_draws(Report& report, std::span<const float> logits);

}  // namespace folio::experiments
