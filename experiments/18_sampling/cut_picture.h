// Draws next-token distributions, and which tokens top-k, top-p and min-p keep.
#pragma once

#include <string>
#include <vector>

#include "experiments/18_sampling/results.h"

namespace folio::experiments {

struct CutPicture {
  struct Panel {
    std::string title{};               ///< heading, with the text before the position
    std::vector<Candidate> model{};    ///< all candidates with the model's probabilities, most likely first
    std::vector<std::string> names{};  ///< texts of the most likely candidates, one per bar
  };

  std::string title;
  std::string subtitle;
  std::vector<Setting> cuts;
  std::vector<Panel> panels;

  /// Returns an SVG document. A panel has a bar for each of `names`, and for each of `cuts` a line that spans the
  /// kept tokens and is labeled with their total probability.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
