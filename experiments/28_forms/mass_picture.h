// Draws charts of structured outputs: the total probability of the allowed tokens at each step, and bar charts.
#pragma once

#include <string>
#include <vector>

namespace folio::experiments {

struct MassPicture {
  struct Column {
    std::string name;
    double mass;                ///< probability of all allowed tokens, from 0 to 1
    std::vector<bool> allowed;  ///< allowed[g]: true if the form allows the tokens of groups[g]
  };
  std::string title, subtitle;
  std::vector<std::string> groups{};
  std::vector<Column> columns{};

  /// Returns an SVG document with a column per token of the text.
  [[nodiscard]] std::string svg() const;
};

/// A bar chart with several bars per row, all on one scale.
struct BarsPicture {
  struct Row {
    std::string name;
    std::vector<double> values;  ///< one value for each of BarsPicture::names
  };
  std::string title, subtitle;
  std::vector<std::string> names{};
  std::vector<Row> rows{};

  /// Returns an SVG document with a group of bars per row.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
