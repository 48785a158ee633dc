// Schedules as pictures: a line for each request, a column for each step, and below them the rows of each step.
#pragma once

#include <span>
#include <string>

#include "experiments/21_scheduling/schedule.h"

namespace folio::experiments {

/// All panels have the trace's requests and one scale. `by_cost`: a column is as wide as its step takes long.
[[nodiscard]] std::string picture(const std::string& title, std::span<const Schedule> panels, bool by_cost);

}  // namespace folio::experiments
