#include "train/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>

#include "core/utf8.h"

namespace folio::train {
namespace {

using Point = LineChart::Point;

// Pixels. The width to the right of the plot follows from the longest label.
constexpr double kLeft = 56;
constexpr double kTop = 66;
constexpr double kPlotWidth = 560;
constexpr double kPlotHeight = 290;
constexpr double kBelow = 52;
constexpr double kLabelHeight = 16;
constexpr double kCharacterWidth = 6.9;  // of the labels' font, generously
constexpr size_t kMaxDots = 24;
constexpr size_t kMaxThick = 300;  // points of a line; longer ones are noisy, and thinner

// Told apart with any colour vision (after Okabe & Ito 2008), darker on the light card and lighter on the dark one.
constexpr std::array<std::string_view, 6> kLight{"#0069a8", "#c44f00", "#00805d", "#a8478a", "#8a6d00", "#5a5fd0"};
constexpr std::array<std::string_view, 6> kDark{"#5ab4f0", "#ff9a52", "#3fcf9f", "#e69ccb", "#e0c040", "#a5a8ff"};

std::string escape_xml(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    const bool allowed = c.valid && c.code_point >= 0x20 && c.code_point != 0xFFFE && c.code_point != 0xFFFF;
    if (!allowed) {
      out += "\xEF\xBF\xBD";  // U+FFFD: XML has no way to write these characters
    } else if (c.code_point == '&') {
      out += "&amp;";
    } else if (c.code_point == '<') {
      out += "&lt;";
    } else if (c.code_point == '>') {
      out += "&gt;";
    } else if (c.code_point == '"') {
      out += "&quot;";
    } else {
      out += text.substr(at, c.length);
    }
    at += c.length;
  }
  return out;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// 0.25, 1500, 20,000, 3M.
std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 && size < 1e9) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4 && size < 1e6 && value == std::round(value)) {
    const auto whole = static_cast<long>(size);
    return fmt::format("{}{},{:03}", value < 0 ? "-" : "", whole / 1000, whole % 1000);
  }
  return fmt::format("{:g}", size < 1e-12 ? 0.0 : value);
}

// A line's last value, as in its label: losses get the three decimals that people compare.
std::string value_text(double value) {
  const bool plain = std::abs(value) >= 0.1 && std::abs(value) < 100.0;
  return plain ? fmt::format("{:.3f}", value) : fmt::format("{:.4g}", value);
}

// 1, 2 or 5 times a power of ten, so that some `parts` steps span the range.
double nice_step(double range, int parts) {
  const double raw = range / parts;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * 1.0001) return factor * power;
  }
  return 10.0 * power;
}

struct Axis {
  double low = 0.0;
  double high = 1.0;
  bool log = false;
  std::vector<double> ticks{};

  [[nodiscard]] bool shows(double value) const {
    // The limit keeps differences finite and ticks meaningful.
    return std::isfinite(value) && std::abs(value) < 1e100 && (!log || value > 1e-100);
  }
  [[nodiscard]] double scale(double value) const { return log ? std::log10(value) : value; }
  /// Where the value lies, 0 at the low end and 1 at the high one.
  [[nodiscard]] double place(double value) const { return (scale(value) - scale(low)) / (scale(high) - scale(low)); }
};

void include(Axis& axis, bool& first, double value) {
  axis.low = first ? value : std::min(axis.low, value);
  axis.high = first ? value : std::max(axis.high, value);
  first = false;
}

// `whole`: the axis is widened to whole steps (the vertical one, which also has less room for them).
void set_ticks(Axis& axis, bool whole) {
  if (!(axis.high - axis.low > 1e-9 * std::max(std::abs(axis.low), std::abs(axis.high)))) {
    const double half = axis.low == 0.0 ? 0.5 : 0.1 * std::abs(axis.low);
    axis.low -= half;
    axis.high += half;
  }
  if (axis.log && axis.high / axis.low >= 10.0) {
    const double decades = std::log10(axis.high / axis.low);
    const int stride = std::max(1, static_cast<int>(decades / 8.0));
    for (int power = static_cast<int>(std::floor(std::log10(axis.low))); power <= std::log10(axis.high);
         power += stride) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = factor * std::pow(10.0, power);
        const bool wanted = factor == 1.0 || decades < 2.5;
        if (wanted && tick >= axis.low * 0.9999 && tick <= axis.high * 1.0001) axis.ticks.push_back(tick);
      }
    }
    return;
  }
  const double step = nice_step(axis.high - axis.low, whole ? 6 : 8);
  if (whole) {
    axis.low = step * std::floor(axis.low / step + 1e-9);
    axis.high = step * std::ceil(axis.high / step - 1e-9);
  }
  const double first = std::ceil(axis.low / step - 1e-9);
  for (int i = 0; (first + i) * step <= axis.high + 1e-9 * step; ++i) axis.ticks.push_back((first + i) * step);
}

std::string grid(const Axis& x, const Axis& y) {
  const double right = kLeft + kPlotWidth;
  const double bottom = kTop + kPlotHeight;
  std::string lines;
  const auto out = std::back_inserter(lines);
  for (const double tick : y.ticks) {
    const double at = bottom - kPlotHeight * y.place(tick);
    fmt::format_to(out, "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kLeft, at, right);
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, at + 4,
                   tick_text(tick));
  }
  for (const double tick : x.ticks) {
    const double at = kLeft + kPlotWidth * x.place(tick);
    fmt::format_to(out, "<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", at, kTop, bottom + 5);
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", at, bottom + 19,
                   tick_text(tick));
  }
  return lines;
}

// A line broken where points are missing; of each column of pixels at most the first, lowest, highest and last point.
std::vector<std::vector<Point>> visible_parts(const std::vector<Point>& points, const Axis& x, const Axis& y) {
  std::vector<std::vector<Point>> parts(1);
  for (const Point& p : points) {
    if (x.shows(p.x) && y.shows(p.y)) {
      parts.back().push_back({kLeft + kPlotWidth * x.place(p.x), kTop + kPlotHeight * (1.0 - y.place(p.y))});
    } else if (!parts.back().empty()) {
      parts.emplace_back();
    }
  }
  if (parts.back().empty()) parts.pop_back();
  for (std::vector<Point>& part : parts) {
    if (static_cast<double>(part.size()) <= 2.0 * kPlotWidth) continue;
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
  Point from;      // the line's end
  double y = 0.0;  // where the text goes, once the labels are spread
};

// Moves labels apart, in the order of their lines, and keeps them beside the plot.
void spread(std::vector<Label>& labels) {
  std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.from.y < b.from.y; });
  double free_from = -std::numeric_limits<double>::infinity();
  for (Label& label : labels) {
    label.y = std::max(label.from.y, free_from);
    free_from = label.y + kLabelHeight;
  }
  double free_to = kTop + kPlotHeight;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, free_to);
    free_to = label->y - kLabelHeight;
  }
}

// The style of series i: colours, cycled through.
std::string style_of(size_t i) { return fmt::format("s{}", i % kLight.size()); }

std::string style_sheet() {
  constexpr std::string_view kRules =
      ".card{{fill:{0};stroke:{1}}}.grid{{stroke:{1}}}text{{fill:{2}}}.strong{{fill:{3}}}.ref{{stroke:{2}}}";
  const auto colours = [](const std::array<std::string_view, 6>& palette) {
    std::string rules;
    for (size_t i = 0; i < palette.size(); ++i) {
      rules += fmt::format(".{0}{{stroke:{1}}}.{0}.fill{{fill:{1};stroke:none}}", style_of(i), palette[i]);
    }
    return rules;
  };
  return "text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}"
         ".title{font-size:15px;font-weight:600}"
         ".line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.thin{stroke-width:1.25}"
         ".ref{fill:none;stroke-width:1.25;stroke-dasharray:5 4}.lead{stroke-width:1;opacity:.6}\n" +
         fmt::format(kRules, "#ffffff", "#dfe3e8", "#57606a", "#1f2328") + colours(kLight) +
         "\n@media(prefers-color-scheme:dark){" + fmt::format(kRules, "#0d1117", "#2b323b", "#9aa4af", "#e6edf3") +
         colours(kDark) + "}";
}

}  // namespace

std::string LineChart::svg() const {
  Axis x{.log = log_x};
  Axis y;
  bool first_x = true;
  bool first_y = true;
  for (const Series& line : series) {
    for (const Point& p : line.points) {
      if (!x.shows(p.x) || !y.shows(p.y)) continue;
      include(x, first_x, p.x);
      include(y, first_y, p.y);
    }
  }
  for (const Reference& reference : references) {
    if (y.shows(reference.y)) include(y, first_y, reference.y);
  }
  if (first_x && log_x) x.low = 0.1;
  set_ticks(x, false);
  set_ticks(y, true);

  const double right = kLeft + kPlotWidth;
  const double bottom = kTop + kPlotHeight;
  std::string body = grid(x, y);
  const auto out = std::back_inserter(body);

  std::vector<Label> labels;
  for (const Reference& reference : references) {
    if (!y.shows(reference.y)) continue;
    const double at = bottom - kPlotHeight * y.place(reference.y);
    fmt::format_to(out, "<path class=\"ref\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kLeft, at, right);
    labels.push_back({reference.name + " " + value_text(reference.y), "", {right, at}});
  }
  for (size_t i = 0; i < series.size(); ++i) {
    const auto parts = visible_parts(series[i].points, x, y);
    if (parts.empty()) continue;
    for (const auto& part : parts) {
      fmt::format_to(out, "<path class=\"line {}{}\" d=\"", style_of(i), part.size() > kMaxThick ? " thin" : "");
      for (size_t k = 0; k < part.size(); ++k)
        fmt::format_to(out, "{}{:.1f} {:.1f}", k == 0 ? 'M' : 'L', part[k].x, part[k].y);
      // A part of one point is drawn as the dot that a line of no length and round ends gives.
      fmt::format_to(out, "{}\"/>\n", part.size() == 1 ? "h0" : "");
    }
    if (series[i].points.size() <= kMaxDots) {
      for (const auto& part : parts) {
        for (const Point& p : part) {
          fmt::format_to(out, "<circle class=\"{} fill\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>", style_of(i), p.x,
                         p.y);
        }
      }
    }
    double last = 0.0;
    for (const Point& p : series[i].points) last = x.shows(p.x) && y.shows(p.y) ? p.y : last;
    labels.push_back({series[i].name + " " + value_text(last), style_of(i), parts.back().back()});
  }
  if (labels.empty()) {
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">no finite values</text>\n",
                   kLeft + kPlotWidth / 2, kTop + kPlotHeight / 2);
  }

  spread(labels);
  size_t longest = 0;
  for (const Label& label : labels) {
    longest = std::max(longest, count_characters(label.text));
    // A label that had to move, or whose line ends early, is led to by a thin line.
    if (std::abs(label.y - label.from.y) > 3.0 || label.from.x < right - 3.0) {
      fmt::format_to(out, "<path class=\"line lead {}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}\"/>",
                     label.style.empty() ? "ref" : label.style, label.from.x, label.from.y,
                     std::max(label.from.x, right), label.from.y, right + 12, label.y);
    }
    fmt::format_to(out, "<text class=\"{} fill\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", label.style, right + 16,
                   label.y + 4, escape_xml(label.text));
  }

  const double width = std::ceil(right + 28 + kCharacterWidth * static_cast<double>(longest));
  const double height = bottom + kBelow;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" height=\"{1:g}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect class=\"card\" x=\".5\" y=\".5\" width=\"{4:g}\" height=\"{5:g}\" rx=\"8\"/>\n"
      "<text class=\"title strong\" x=\"16\" y=\"28\">{2}</text>\n<text x=\"16\" y=\"48\">{6}</text>\n"
      "<text x=\"{7:g}\" y=\"{8:g}\" text-anchor=\"middle\">{9}</text>\n{10}</svg>\n",
      width, height, escape_xml(title), style_sheet(), width - 1, height - 1, escape_xml(y_label),
      kLeft + kPlotWidth / 2, bottom + 40, escape_xml(x_label), body);
}

}  // namespace folio::train
