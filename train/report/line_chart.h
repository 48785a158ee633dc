// Line charts as SVG text: the loss.svg of a training run, and the pictures of the experiments.
#pragma once

#include <string>
#include <vector>

namespace folio::train {

struct LineChart {
  struct Point {
    double x = 0.0;
    double y = 0.0;
  };
  struct Series {
    std::string name;           ///< shown at the line's right end, with its last value
    std::vector<Point> points;  ///< joined in this order; up to 24 points are drawn as dots, too
  };
  /// A dashed horizontal line to compare the series with: {"5-gram by counting", 1.669}.
  struct Reference {
    std::string name;  ///< shown at the line's right end, with its value
    double y = 0.0;
  };

  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series{};
  std::vector<Reference> references{};
  bool log_x = false;
  bool log_y = false;

  /// The chart as one SVG document, well-formed for any names and numbers. A point that is not finite, or not above 0
  /// on a logarithmic axis, is skipped and leaves a gap in its line. If there are more points than pixels, each column
  /// of pixels keeps its extremes, so that spikes stay visible.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::train
