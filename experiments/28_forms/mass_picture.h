// How much of the model's probability a form leaves, token by token of a text.
#pragma once

#include <string>
#include <vector>

namespace folio::experiments {

struct MassPicture {
  struct Column {
    std::string name;
    double mass;                 ///< 0 to 1
    std::vector<bool> may_come;  ///< of each group of tokens
  };
  std::string title, subtitle;
  std::vector<std::string> groups{};
  std::vector<Column> columns{};

  /// One SVG document.
  [[nodiscard]] std::string svg() const;
};

/// Texts with some numbers each, as bars on one scale.
struct BarsPicture {
  struct Row {
    std::string name;
    std::vector<double> values;  ///< as many as there are names
  };
  std::string title, subtitle;
  std::vector<std::string> names{};
  std::vector<Row> rows{};

  /// One SVG document.
  [[nodiscard]] std::string svg() const;
};

}  // namespace folio::experiments
