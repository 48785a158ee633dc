// Draws timelines: a line per rank, a box per action with its microbatch number.
#pragma once

#include <string>
#include <vector>

#include "experiments/26_pipeline/simulation.h"

namespace folio::experiments {

struct Panel {
  std::string title;
  Timeline timeline;
};

/// Returns an SVG document. All panels have the time scale of the longest one.
[[nodiscard]] std::string picture(const std::string& title, const std::string& subtitle,
                                  const std::vector<Panel>& panels);

}  // namespace folio::experiments
