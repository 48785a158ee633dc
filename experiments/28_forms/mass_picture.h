// Draws the probability mass of a form's allowed tokens at each token of a text.
#pragma once

#include <string>
#include <vector>

namespace folio::experiments {

struct MassPicture {
  struct Column {
    std::string name;
    double mass;                ///< between 0 and 1
    std::vector<bool> allowed;  ///< by group of tokens: allowed or not
  };
  std::string title, subtitle;
  std::vector<std::string> groups{};
  std::vector<Column> columns{};

  /// Returns an SVG document.
  [[nodiscard]] std::string svg() const;
};

/// Draws texts with several values each as bars on one scale.
struct BarsPicture {
  struct Row {
    std::string name;
    std::vector<double> values;  ///< one per name
  };
  std::string title, subtitle;
  std::vector<std::string> names{};
  std::vector<Row> rows{};

  /// Returns an SVG document.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
