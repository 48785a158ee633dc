// Draws schedules: a line per request, a column per step, and the number of rows of each step below.
#pragma once

#include <span>
#include <string>

#include "experiments/21_scheduling/schedule.h"

namespace folio::experiments {

/// Draws panels with the same requests and scale. `by_cost` makes a column's width proportional to its step's time.
[[nodiscard]] std::string picture(const std::string& title, std::span<const Schedule> panels, bool by_cost);

}  // namespace folio::experiments
