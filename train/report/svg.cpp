#include "train/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/utf8.h"

namespace folio::train::svg {
namespace {

// Line colors for a light and for a dark background.
constexpr std::array<std::string_view, 6> kLight{"#0069a8", "#c44f00", "#00805d", "#a8478a", "#8a6d00", "#5a5fd0"};
constexpr std::array<std::string_view, 6> kDark{"#5ab4f0", "#ff9a52", "#3fcf9f", "#e69ccb", "#e0c040", "#a5a8ff"};

// Returns 1, 2 or 5 times a power of ten, such that about `parts` steps span the range.
double nice_step(double range, int parts) {
  const double raw = range / parts;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * 1.0001) return factor * power;
  }
  return 10.0 * power;
}

std::string style_sheet() {
  constexpr std::string_view kRules =
      ".card{{fill:{0};stroke:{1}}}.grid{{stroke:{1}}}text{{fill:{2}}}.strong{{fill:{3}}}.ref{{stroke:{2}}}";
  const auto colours = [](const std::array<std::string_view, 6>& palette) {
    std::string rules;
    for (size_t i = 0; i < palette.size(); ++i) {
      rules += fmt::format(".{0}{{stroke:{1}}}.{0}.fill{{fill:{1};stroke:none}}", colour(i), palette[i]);
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

double scaled(const Axis& axis, double value) { return axis.log ? std::log10(value) : value; }

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    const bool allowed = c.valid && c.code_point >= 0x20 && c.code_point != 0xFFFE && c.code_point != 0xFFFF;
    out += !allowed              ? "\xEF\xBF\xBD"  // U+FFFD, the replacement character
           : c.code_point == '&' ? "&amp;"
           : c.code_point == '<' ? "&lt;"
           : c.code_point == '>' ? "&gt;"
           : c.code_point == '"' ? "&quot;"
                                 : text.substr(at, c.length);
    at += c.length;
  }
  return out;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 && size < 1e9) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4 && size < 1e6 && value == std::round(value)) {
    const auto whole = static_cast<long>(size);
    return fmt::format("{}{},{:03}", value < 0 ? "-" : "", whole / 1000, whole % 1000);
  }
  return fmt::format("{:g}", size < 1e-12 ? 0.0 : value);
}

std::string value_text(double value) {
  const bool plain = std::abs(value) >= 0.1 && std::abs(value) < 100.0;
  return plain ? fmt::format("{:.3f}", value) : fmt::format("{:.4g}", value);
}

std::string colour(size_t i) { return fmt::format("s{}", i % kLight.size()); }

bool Axis::shows(double value) const {
  // The limits keep differences finite and ticks meaningful.
  return std::isfinite(value) && std::abs(value) < 1e100 && (!log || value > 1e-100);
}

double Axis::place(double value) const {
  return (scaled(*this, value) - scaled(*this, low)) / (scaled(*this, high) - scaled(*this, low));
}

void Axis::include(double value) {
  if (!shows(value)) return;
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

void Axis::set_ticks(bool whole) {
  if (empty && log) low = 0.1;
  if (!(high - low > 1e-9 * std::max(std::abs(low), std::abs(high)))) {
    const double half = low == 0.0 ? 0.5 : 0.1 * std::abs(low);
    low -= half;
    high += half;
  }
  if (log && high / low >= 10.0) {
    const double decades = std::log10(high / low);
    const int stride = std::max(1, static_cast<int>(decades / 8.0));
    for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::log10(high); power += stride) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = factor * std::pow(10.0, power);
        const bool wanted = factor == 1.0 || decades < 2.5;
        if (wanted && tick >= low * 0.9999 && tick <= high * 1.0001) ticks.push_back(tick);
      }
    }
    return;
  }
  const double step = nice_step(high - low, whole ? 6 : 8);
  if (whole && !log) {
    low = step * std::floor(low / step + 1e-9);
    high = step * std::ceil(high / step - 1e-9);
  }
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; (first + i) * step <= high + 1e-9 * step; ++i) ticks.push_back((first + i) * step);
}

std::string grid_y(const Frame& frame, const Axis& y) {
  std::string lines;
  for (const double tick : y.ticks) {
    const double at = frame.bottom() - frame.height * y.place(tick);
    lines += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", frame.left, at, frame.right()) +
             text_at(frame.left - 8, at + 4, tick_text(tick), "end");
  }
  return lines;
}

std::string grid_x(const Frame& frame, const Axis& x) {
  std::string lines;
  for (const double tick : x.ticks) {
    const double at = frame.left + frame.width * x.place(tick);
    lines += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", at, frame.top, frame.bottom() + 5) +
             text_at(at, frame.bottom() + 19, tick_text(tick), "middle");
  }
  return lines;
}

std::string text_at(double x, double y, std::string_view text, std::string_view anchor, std::string_view classes) {
  const auto attribute = [](std::string_view name, std::string_view value) {
    return value.empty() ? std::string() : fmt::format(" {}=\"{}\"", name, value);
  };
  return fmt::format("<text{} x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", attribute("class", classes), x, y,
                     attribute("text-anchor", anchor == "start" ? "" : anchor), escape(text));
}

std::string bar(size_t i, double x, double y, double width, double height) {
  return fmt::format("<rect class=\"{} fill\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                     colour(i), x, y, width, height);
}

std::string document(double width, double height, std::string_view title, std::string_view subtitle,
                     const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" height=\"{1:g}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect class=\"card\" x=\".5\" y=\".5\" width=\"{4:g}\" height=\"{5:g}\" rx=\"8\"/>\n"
      "<text class=\"title strong\" x=\"16\" y=\"28\">{2}</text>\n<text x=\"16\" y=\"48\">{6}</text>\n{7}</svg>\n",
      width, height, escape(title), style_sheet(), width - 1, height - 1, escape(subtitle), body);
}

}  // namespace folio::train::svg
