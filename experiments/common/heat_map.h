// Heat maps of matrices, several panels on one color scale: attention maps, scores by position.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace folio::experiments {

struct HeatMap {
  struct Panel {
    std::string title;
    int64_t rows = 0;
    int64_t columns = 0;
    std::vector<double> values;            ///< rows × columns, row-major; the first row is at the top
    std::vector<std::string> row_names{};  ///< row labels; empty: row indices
    std::vector<std::string> column_names{};
  };

  std::string title;
  std::string subtitle;
  std::string row_label;
  std::string column_label;
  std::vector<Panel> panels{};
  int64_t panels_per_row = 0;  ///< 0: all panels in one row

  /// Returns an SVG document. Colors range from the background at 0 to full saturation at the largest magnitude of all
  /// panels; negative values have a second hue. Non-finite values are drawn as crosses. Throws core::Error if a panel's
  /// sizes are inconsistent.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
