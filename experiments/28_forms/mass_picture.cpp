#include "experiments/28_forms/mass_picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// The layout of the pictures, in pixels.
constexpr double kTop = 68;
constexpr double kAxis = 84;
constexpr double kColumn = 9;
constexpr double kHeight = 120;
constexpr double kGroup = 15;  // height of a row of squares
constexpr double kBar = 13;
constexpr double kNames = 110;
constexpr double kBars = 420;

}  // namespace

std::string MassPicture::svg() const {
  std::string body;
  const double below = kTop + kHeight + 34;
  for (const double share : {0.0, 0.5, 1.0}) {
    body += svg::text_at(kAxis - 8, kTop + kHeight * (1 - share) + 4, svg::tick_text(share), "end");
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    body += svg::text_at(kAxis - 8, below + kGroup * static_cast<double>(g) + 9, groups[g], "end", "strong");
  }
  std::string squares;
  for (size_t i = 0; i < columns.size(); ++i) {
    const double x = kAxis + kColumn * static_cast<double>(i);
    const double cut = kHeight * (1.0 - columns[i].mass);
    if (cut >= 0.05) body += svg::bar(1, x, kTop, kColumn - 1, cut);
    body += svg::bar(0, x, kTop + cut, kColumn - 1, kHeight - cut);
    body += svg::text_at(x + (kColumn - 1) / 2, kTop + kHeight + 16, columns[i].name, "middle", "strong");
    for (size_t g = 0; g < groups.size(); ++g) {
      if (columns[i].allowed[g]) {
        squares += fmt::format("M{:.0f} {:.0f}h8v8h-8z", x, below + kGroup * static_cast<double>(g));
      }
    }
  }
  body += fmt::format("<path class=\"{} fill\" d=\"{}\"/>\n", svg::colour(2), squares);
  return svg::document(kAxis + kColumn * static_cast<double>(columns.size()) + 16,
                       below + kGroup * static_cast<double>(groups.size()) + 10, title, subtitle, body);
}

std::string BarsPicture::svg() const {
  std::string body;
  const double row = kBar * static_cast<double>(names.size()) + 10;
  const double top = kTop + 22;
  double x = 16;
  for (size_t i = 0; i < names.size(); ++i) {
    body += svg::bar(i, x, kTop - 8, 10, 10) + svg::text_at(x + 16, kTop + 1, names[i]);
    x += 16 + svg::kCharacterWidth * static_cast<double>(svg::count_characters(names[i])) + 20;
  }
  double most = 0.0;
  for (const Row& r : rows) most = std::max(most, *std::ranges::max_element(r.values));
  for (size_t r = 0; r < rows.size(); ++r) {
    const double y = top + row * static_cast<double>(r);
    body += svg::text_at(kNames - 8, y + row / 2, rows[r].name, "end", "strong");
    for (size_t i = 0; i < rows[r].values.size(); ++i) {
      const double width = std::max(1.0, kBars * rows[r].values[i] / most);
      const double at = y + kBar * static_cast<double>(i);
      body += svg::bar(i, kNames, at, width, kBar - 1);
      body += svg::text_at(kNames + width + 6, at + kBar - 1, fmt::format("{:.3f}", rows[r].values[i]));
    }
  }
  const double width = std::max({x, kNames + kBars + 70.0, 6.6 * static_cast<double>(subtitle.size()) + 20});
  return svg::document(width, top + row * static_cast<double>(rows.size()) + 8, title, subtitle, body);
}

}  // namespace folio::experiments
