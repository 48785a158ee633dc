// Charts of means with confidence intervals, one row per variant: ablations and paired differences.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/statistics.h"

namespace folio::experiments {

struct IntervalChart {
  struct Row {
    std::string name;
    Interval interval;  ///< low = high = mean for a value without an interval
  };
  struct Reference {
    std::string name;
    double x = 0.0;
  };

  std::string title;
  std::string subtitle;
  std::string x_label;
  std::vector<Row> rows;
  std::vector<Reference> references{};  ///< dashed vertical lines, for example {"no difference", 0}

  /// Returns an SVG document, well-formed for any names and values. A row with a non-finite value has a label
  /// but no interval.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
