// Timelines as pictures: a line for each rank, a box for each thing that it does, with the number of its microbatch.
#pragma once

#include <string>
#include <vector>

#include "experiments/26_pipeline/simulation.h"

namespace folio::experiments {

struct Panel {
  std::string title;
  Timeline timeline;
};

/// All panels have one scale: as wide as the longest.
[[nodiscard]] std::string picture(const std::string& title, const std::string& subtitle,
                                  const std::vector<Panel>& panels);

}  // namespace folio::experiments
