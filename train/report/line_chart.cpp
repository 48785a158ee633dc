#include "train/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "train/report/svg.h"

namespace folio::train {
namespace {

using Point = LineChart::Point;
using svg::Axis;

// The plot area in pixels. The chart's total width depends on the longest label right of the plot.
constexpr svg::Frame kPlot{.left = 56, .top = 66, .width = 560, .height = 290};
constexpr double kBelow = 52;
constexpr double kLabelHeight = 16;
constexpr size_t kMaxDots = 24;
constexpr size_t kMaxThick = 300;  // lines with more points are drawn thinner

// Returns the points in pixels, divided into parts at missing points. If a part has more than two points per pixel of
// the plot's width, keeps only the first, lowest, highest and last point of each pixel column.
std::vector<std::vector<Point>> visible_parts(const std::vector<Point>& points, const Axis& x, const Axis& y) {
  std::vector<std::vector<Point>> parts(1);
  for (const Point& p : points) {
    if (x.shows(p.x) && y.shows(p.y)) {
      parts.back().push_back(
          {kPlot.left + kPlot.width * x.place(p.x), kPlot.top + kPlot.height * (1.0 - y.place(p.y))});
    } else if (!parts.back().empty()) {
      parts.emplace_back();
    }
  }
  if (parts.back().empty()) parts.pop_back();
  for (std::vector<Point>& part : parts) {
    if (static_cast<double>(part.size()) <= 2.0 * kPlot.width) continue;
    std::vector<Point> kept;
    for (auto begin = part.begin(); begin != part.end();) {
      const auto column = [](const Point& p) { return std::floor(p.x); };
      const auto end = std::find_if(begin, part.end(), [&](const Point& p) { return column(p) != column(*begin); });
      auto [low, high] = std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
      if (high < low) std::swap(low, high);
      auto last_kept = part.end();
      for (const auto& p : {begin, low, high, end - 1}) {
        if (p != last_kept) kept.push_back(*p);
        last_kept = p;
      }
      begin = end;
    }
    part = std::move(kept);
  }
  return parts;
}

struct Label {
  std::string text;
  std::string style;
  Point from;      // last point of the line that the label names
  double y = 0.0;  // vertical position of the label's text, set by spread()
};

// Moves overlapping labels apart, keeping the order of their lines, within the height of the plot.
void spread(std::vector<Label>& labels) {
  std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.from.y < b.from.y; });
  double free_from = -std::numeric_limits<double>::infinity();
  for (Label& label : labels) {
    label.y = std::max(label.from.y, free_from);
    free_from = label.y + kLabelHeight;
  }
  double free_to = kPlot.bottom();
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, free_to);
    free_to = label->y - kLabelHeight;
  }
}

// Returns a series as SVG, one path per part. `parts` are the runs of points between missing values.
std::string series_svg(const std::vector<std::vector<Point>>& parts, const std::string& colour, bool dots) {
  std::string body;
  const auto out = std::back_inserter(body);
  for (const auto& part : parts) {
    fmt::format_to(out, "<path class=\"line {}{}\" d=\"", colour, part.size() > kMaxThick ? " thin" : "");
    for (size_t k = 0; k < part.size(); ++k)
      fmt::format_to(out, "{}{:.1f} {:.1f}", k == 0 ? 'M' : 'L', part[k].x, part[k].y);
    // A single point becomes a line of length 0, whose round caps look like a dot.
    fmt::format_to(out, "{}\"/>\n", part.size() == 1 ? "h0" : "");
  }
  for (const auto& part : parts) {
    if (!dots) break;
    for (const Point& p : part)
      fmt::format_to(out, "<circle class=\"{} fill\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>", colour, p.x, p.y);
  }
  return body;
}

// Returns a label's SVG, with a thin line to the end of its curve if the label was moved or the curve ends early.
std::string label_svg(const Label& label) {
  std::string body;
  if (std::abs(label.y - label.from.y) > 3.0 || label.from.x < kPlot.right() - 3.0) {
    body = fmt::format("<path class=\"line lead {}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}\"/>",
                       label.style.empty() ? "ref" : label.style, label.from.x, label.from.y,
                       std::max(label.from.x, kPlot.right()), label.from.y, kPlot.right() + 12, label.y);
  }
  return body + svg::text_at(kPlot.right() + 16, label.y + 4, label.text, "start", label.style + " fill");
}

}  // namespace

std::string LineChart::svg() const {
  Axis x{.log = log_x};
  Axis y{.log = log_y};
  for (const Series& line : series) {
    for (const Point& p : line.points) {
      if (!x.shows(p.x) || !y.shows(p.y)) continue;
      x.include(p.x);
      y.include(p.y);
    }
  }
  for (const Reference& reference : references) y.include(reference.y);
  x.set_ticks(false);
  y.set_ticks(true);

  std::string body = svg::grid_y(kPlot, y) + svg::grid_x(kPlot, x);
  std::vector<Label> labels;
  for (const Reference& reference : references) {
    if (!y.shows(reference.y)) continue;
    const double at = kPlot.bottom() - kPlot.height * y.place(reference.y);
    body += fmt::format("<path class=\"ref\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kPlot.left, at, kPlot.right());
    labels.push_back({reference.name + " " + svg::value_text(reference.y), "", {kPlot.right(), at}});
  }
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string colour = svg::colour(i);
    const auto parts = visible_parts(series[i].points, x, y);
    if (parts.empty()) continue;
    body += series_svg(parts, colour, series[i].points.size() <= kMaxDots);
    double last = 0.0;
    for (const Point& p : series[i].points) last = x.shows(p.x) && y.shows(p.y) ? p.y : last;
    labels.push_back({series[i].name + " " + svg::value_text(last), colour, parts.back().back()});
  }
  if (labels.empty()) {
    body += svg::text_at(kPlot.left + kPlot.width / 2, kPlot.top + kPlot.height / 2, "no finite values", "middle");
  }

  spread(labels);
  size_t longest = 0;
  for (const Label& label : labels) {
    longest = std::max(longest, svg::count_characters(label.text));
    body += label_svg(label);
  }

  body += svg::text_at(kPlot.left + kPlot.width / 2, kPlot.bottom() + 40, x_label, "middle");
  const double width = std::ceil(kPlot.right() + 28 + svg::kCharacterWidth * static_cast<double>(longest));
  return svg::document(width, kPlot.bottom() + kBelow, title, y_label, body);
}

}  // namespace folio::train
