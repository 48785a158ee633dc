#include "experiments/common/interval_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// Sizes of the picture in pixels.
constexpr double kTop = 84;
constexpr double kWidth = 420;
constexpr double kRowHeight = 30;

std::string value_of(const Interval& i) {
  if (i.low == i.high) return svg::value_text(i.mean);
  return fmt::format("{:.3f}  [{:.3f}, {:.3f}]", i.mean, i.low, i.high);
}

}  // namespace

std::string IntervalChart::svg() const {
  svg::Axis x;
  size_t longest_name = 0;
  size_t longest_value = 0;
  const auto shown = [&](const Interval& i) { return x.shows(i.low) && x.shows(i.mean) && x.shows(i.high); };
  for (const Row& row : rows) {
    longest_name = std::max(longest_name, svg::count_characters(row.name));
    longest_value = std::max(longest_value, svg::count_characters(value_of(row.interval)));
    if (!shown(row.interval)) continue;
    x.include(row.interval.low);
    x.include(row.interval.high);
  }
  for (const Reference& reference : references) x.include(reference.x);
  x.set_ticks(true);

  const svg::Frame plot{.left = 32 + svg::kCharacterWidth * static_cast<double>(longest_name),
                        .top = kTop,
                        .width = kWidth,
                        .height = kRowHeight * static_cast<double>(std::max<size_t>(1, rows.size()))};
  std::string body = svg::grid_x(plot, x);
  const auto out = std::back_inserter(body);
  const auto place = [&](double value) { return plot.left + plot.width * x.place(value); };
  for (const Reference& reference : references) {
    if (!x.shows(reference.x)) continue;
    fmt::format_to(out, "<path class=\"ref\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", place(reference.x), plot.top,
                   plot.bottom());
    const char* anchor = x.place(reference.x) < 0.15 ? "start" : x.place(reference.x) > 0.85 ? "end" : "middle";
    body += svg::text_at(place(reference.x), plot.top - 8, reference.name, anchor);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const Interval& interval = rows[i].interval;
    const double y = plot.top + kRowHeight * (static_cast<double>(i) + 0.5);
    body += svg::text_at(plot.left - 12, y + 4, rows[i].name, "end");
    if (!shown(interval)) {
      body += svg::text_at(plot.right() + 16, y + 4, "not finite");
      continue;
    }
    if (interval.low < interval.high) {
      fmt::format_to(out,
                     "<path class=\"line s0\" d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v10M{1:.1f} {3:.1f}v10\"/>",
                     place(interval.low), place(interval.high), y, y - 5);
    }
    fmt::format_to(out, "<circle class=\"s0 fill\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", place(interval.mean), y);
    body += svg::text_at(plot.right() + 16, y + 4, value_of(interval), "start", "strong");
  }
  body += svg::text_at(plot.left + plot.width / 2, plot.bottom() + 40, x_label, "middle");
  const double width =
      plot.right() + 36 + svg::kCharacterWidth * static_cast<double>(std::max<size_t>(10, longest_value));
  return svg::document(std::ceil(width), plot.bottom() + 52, title, subtitle, body);
}

}  // namespace folio::experiments
