// Draws distributions of a model, and which tokens top-k, top-p and min-p keep.
#pragma once

#include <string>
#include <vector>

#include "experiments/18_sampling/results.h"

namespace folio::experiments {

struct CutPicture {
  struct Panel {
    std::string title{};               ///< the context of the position
    std::vector<Candidate> model{};    ///< most likely first
    std::vector<std::string> names{};  ///< text of the first tokens
  };

  std::string title;
  std::string subtitle;
  std::vector<Setting> cuts;
  std::vector<Panel> panels;

  /// Returns an SVG document. Each panel shows as many tokens as it has names, as bars, with a line per truncation from
  /// the first kept token to the last, labelled with the kept probability.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
