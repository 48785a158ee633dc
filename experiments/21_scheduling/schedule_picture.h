// Draws schedules: a line per request, a column per step, and the number of rows of each step below.
#pragma once

#include <span>
#include <string>

#include "experiments/21_scheduling/schedule.h"

namespace folio::experiments {

/// Returns an SVG document with a panel per schedule, all on one scale. A step's width is proportional to its cost() if
/// `by_cost`, else constant.
[[nodiscard]] std::string picture(const std::string& title, std::span<const Schedule> panels, bool by_cost);

}  // namespace folio::experiments
