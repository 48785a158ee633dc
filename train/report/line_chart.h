// Line charts as SVG: a training run's loss.svg, and the charts of the experiments.
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
    std::string name;           ///< label at the line's right end, followed by its last value
    std::vector<Point> points;  ///< joined in this order; up to 24 points also get dots
  };
  /// A dashed horizontal reference line, such as {"5-gram by counting", 1.669}.
  struct Reference {
    std::string name;  ///< label at the line's right end, followed by its value
    double y = 0.0;
  };

  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series{};
  std::vector<Reference> references{};
  bool log_x = false;
  bool log_y = false;

  /// Returns the chart as an SVG document, well-formed for any names and values. Points that are not finite, or not
  /// positive on a logarithmic axis, leave a gap in the line. With more than two points per pixel of width, each
  /// pixel column keeps its extremes, so that spikes stay visible.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::train
