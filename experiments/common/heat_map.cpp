#include "experiments/common/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;
using Panel = HeatMap::Panel;

// Layout of the picture in pixels, and kLevels, the number of color levels per sign.
constexpr double kTop = 90;
constexpr double kLeft = 56;
constexpr double kPanelHeight = 384;
constexpr double kGap = 56;
constexpr double kBelow = 88;
constexpr int kLevels = 24;

struct Scale {
  double largest = 0.0;
  bool negative = false;  ///< true if any value is below 0
};

Scale scale_of(const std::vector<Panel>& panels) {
  Scale scale;
  for (const Panel& panel : panels) {
    for (const double value : panel.values) {
      if (!std::isfinite(value)) continue;
      scale.largest = std::max(scale.largest, std::abs(value));
      scale.negative = scale.negative || value < 0.0;
    }
  }
  if (scale.largest == 0.0) scale.largest = 1.0;
  return scale;
}

// Draws a panel's squares, each 1 x 1: one path per color, with a rectangle for each run of equal squares in a row.
std::string squares(const Panel& panel, const Scale& scale) {
  std::map<int, std::string> path_of_level;  // keys -kLevels to kLevels; 0 is the background color
  std::string crosses;
  const auto level_at = [&](int64_t row, int64_t column) {
    return static_cast<int>(std::lround(kLevels * panel.values[row * panel.columns + column] / scale.largest));
  };
  for (int64_t row = 0; row < panel.rows; ++row) {
    for (int64_t column = 0; column < panel.columns;) {
      if (!std::isfinite(panel.values[row * panel.columns + column])) {
        crosses += fmt::format("M{0} {1}l1 1m0-1l-1 1", column, row);
        ++column;
        continue;
      }
      const int level = level_at(row, column);
      int64_t end = column + 1;
      while (end < panel.columns && std::isfinite(panel.values[row * panel.columns + end]) &&
             level_at(row, end) == level) {
        ++end;
      }
      if (level != 0) path_of_level[level] += fmt::format("M{} {}h{}v1h-{}z", column, row, end - column, end - column);
      column = end;
    }
  }
  std::string out;
  for (const auto& [level, path] : path_of_level) {
    out += fmt::format("<path class=\"{} fill\" fill-opacity=\"{:.3g}\" d=\"{}\"/>\n", svg::colour(level > 0 ? 0 : 1),
                       std::abs(level) / static_cast<double>(kLevels), path);
  }
  if (!crosses.empty()) out += fmt::format("<path class=\"ref\" style=\"stroke-width:.1\" d=\"{}\"/>\n", crosses);
  return out;
}

// Labels squares 0 to n - 1 with `names` or, without names, every few squares with their index. place(i, label) draws
// the label of square i.
template <typename Place>
void put_names(int64_t n, const std::vector<std::string>& names, Place place) {
  if (!names.empty()) {
    for (int64_t i = 0; i < n; ++i) place(i, names[i]);
    return;
  }
  const int64_t step = n <= 12 ? 1 : n <= 40 ? 8 : 16 * ((n + 127) / 128);
  for (int64_t i = 0; i < n; i += step) place(i, std::to_string(i));
}

std::string legend(double x, double y, const Scale& scale) {
  constexpr double kWidth = 5;
  const int lowest = scale.negative ? -kLevels : 0;
  std::string out = svg::text_at(x - 6, y + 10, scale.negative ? svg::value_text(-scale.largest) : "0", "end");
  for (int level = lowest; level <= kLevels; ++level) {
    out += fmt::format("<path class=\"{} fill\" fill-opacity=\"{:.3g}\" d=\"M{:.1f} {:.1f}h{}v12h-{}z\"/>",
                       svg::colour(level > 0 ? 0 : 1), std::abs(level) / static_cast<double>(kLevels),
                       x + kWidth * (level - lowest), y, kWidth, kWidth);
  }
  const double end = x + kWidth * (kLevels - lowest + 1);
  return out +
         fmt::format("<path class=\"grid\" fill=\"none\" d=\"M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}z\"/>\n", x, y, end,
                     y + 12, x) +
         svg::text_at(end + 6, y + 10, svg::value_text(scale.largest));
}

}  // namespace

std::string HeatMap::svg() const {
  const Scale scale = scale_of(panels);
  std::string body = svg::text_at(16, kTop - 18, row_label + " ↓");
  double left = kLeft, top = kTop, right = kLeft, tallest = 0.0;
  for (size_t k = 0; k < panels.size(); ++k) {
    const Panel& panel = panels[k];
    if (panels_per_row > 0 && k > 0 && k % static_cast<size_t>(panels_per_row) == 0) {
      left = kLeft;
      top += std::exchange(tallest, 0.0) + kGap;
    }
    core::require(panel.rows >= 1 && panel.columns >= 1 &&
                      panel.values.size() == static_cast<size_t>(panel.rows * panel.columns) &&
                      (panel.row_names.empty() || panel.row_names.size() == static_cast<size_t>(panel.rows)) &&
                      (panel.column_names.empty() || panel.column_names.size() == static_cast<size_t>(panel.columns)),
                  "heat map \"{}\": {} values and {} and {} names don't fit {} rows and {} columns", panel.title,
                  panel.values.size(), panel.row_names.size(), panel.column_names.size(), panel.rows, panel.columns);
    const double side = kPanelHeight / static_cast<double>(std::max(panel.rows, panel.columns));
    const double width = side * static_cast<double>(panel.columns);
    const double height = side * static_cast<double>(panel.rows);
    body += svg::text_at(left + width / 2, top - 18, panel.title, "middle", "strong");
    body +=
        fmt::format("<g transform=\"translate({:.1f} {:.1f}) scale({:.4f})\" shape-rendering=\"crispEdges\">\n{}</g>\n",
                    left, top, side, squares(panel, scale));
    body += fmt::format("<path class=\"grid\" fill=\"none\" d=\"M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z\"/>\n", left, top,
                        width, height, width);
    put_names(panel.rows, panel.row_names, [&](int64_t i, const std::string& name) {
      body += svg::text_at(left - 6, top + side * (static_cast<double>(i) + 0.5) + 4, name, "end");
    });
    put_names(panel.columns, panel.column_names, [&](int64_t i, const std::string& name) {
      body += svg::text_at(left + side * (static_cast<double>(i) + 0.5), top + height + 15, name, "middle");
    });
    right = std::max(right, left + width);
    tallest = std::max(tallest, height);
    left += width + kGap;
  }
  const double bottom = top + tallest;
  body += svg::text_at((kLeft + right) / 2, bottom + 36, column_label + " →", "middle");
  body += legend(kLeft + 50, bottom + 56, scale);
  const double text_width = svg::kCharacterWidth * static_cast<double>(std::max(svg::count_characters(subtitle),
                                                                                svg::count_characters(title) * 5 / 4));
  return svg::document(std::ceil(std::max(right + 24, 32 + text_width)), bottom + kBelow, title, subtitle, body);
}

}  // namespace folio::experiments
