// Tables of numbers as coloured squares, several beside each other on one scale: attention maps, scores by position.
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
    std::vector<double> values;            ///< rows · columns, row by row; the first row is at the top
    std::vector<std::string> row_names{};  ///< beside the rows, or nothing: the rows' numbers then
    std::vector<std::string> column_names{};
  };

  std::string title;
  std::string subtitle;
  std::string row_label;
  std::string column_label;
  std::vector<Panel> panels{};
  int64_t panels_per_row = 0;  ///< 0: all side by side

  /// One SVG document. A number's colour is the card's at 0 and full at the largest magnitude of all panels; numbers
  /// below 0 have a hue of their own. A number that is not finite leaves a cross. Throws core::Error for a panel whose
  /// sizes don't fit each other.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
