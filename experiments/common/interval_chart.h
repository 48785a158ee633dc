// Means with their intervals, a row for each variant: ablations and paired differences.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/statistics.h"

namespace folio::experiments {

struct IntervalChart {
  struct Row {
    std::string name;
    Interval interval;  ///< a value without one has low = high = mean
  };
  struct Reference {
    std::string name;
    double x = 0.0;
  };

  std::string title;
  std::string subtitle;
  std::string x_label;
  std::vector<Row> rows;
  std::vector<Reference> references{};  ///< dashed vertical lines: {"no difference", 0}

  /// One SVG document, well-formed whatever the names and numbers are. A row with a number that is not finite says so
  /// and is not drawn.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
