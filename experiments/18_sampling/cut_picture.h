// A picture of real distributions, and where three ways of cutting cut them.
#pragma once

#include <string>
#include <vector>

#include "experiments/18_sampling/results.h"

namespace folio::experiments {

struct CutPicture {
  struct Panel {
    std::string title{};               ///< the text before the position
    std::vector<Candidate> model{};    ///< likeliest first
    std::vector<std::string> names{};  ///< what the first tokens say
  };

  std::string title;
  std::string subtitle;
  std::vector<Setting> cuts;
  std::vector<Panel> panels;

  /// One SVG document. A panel shows as many tokens as it has names, as bars, and beside them a line for each cut: from
  /// the first token that is kept to the last, with the probability that is kept.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
