#include "experiments/18_sampling/cut_picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// The layout of the picture, in pixels.
constexpr double kTop = 112;
constexpr double kRow = 17;
constexpr double kNames = 40;
constexpr double kBars = 150;
constexpr double kNumbers = 56;
constexpr double kCut = 74;
constexpr double kGap = 36;

std::string percent(double p) { return fmt::format("{:.{}f} %", 100.0 * p, p < 0.01 ? 2 : 1); }

std::string bars(const CutPicture::Panel& panel, double left) {
  std::string body;
  for (size_t i = 0; i < panel.names.size(); ++i) {
    const double y = kTop + kRow * static_cast<double>(i);
    body += svg::text_at(left + kNames - 8, y + 12, panel.names[i], "end", "strong");
    const double width = std::max(1.0, kBars * panel.model[i].p / panel.model[0].p);
    body += fmt::format("<rect class=\"{} fill\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                        svg::colour(0), left + kNames, y + 2, width, kRow - 4);
    body += svg::text_at(left + kNames + kBars + kNumbers - 6, y + 12, percent(panel.model[i].p), "end");
  }
  return body;
}

std::string cut_line(const CutPicture::Panel& panel, const Setting& cut, size_t colour, double x) {
  const size_t n = n_kept(panel.model, cut.options);
  const size_t shown = std::min(n, panel.names.size());
  const double bottom = kTop + kRow * static_cast<double>(shown);
  const std::string style = svg::colour(colour);
  std::string body = svg::text_at(x, kTop - 10, cut.name, "middle", style + " fill");
  body += fmt::format("<path class=\"line {}\" d=\"M{:.1f} {:.1f}h12m-6 0V{:.1f}m-6 0h12\"/>\n", style, x - 6, kTop + 2,
                      bottom - 2);
  const double below = bottom + 12;
  body += svg::text_at(x, below, n == 1 ? "1 token" : fmt::format("{} tokens", n), "middle", style + " fill");
  body += svg::text_at(x, below + 15, percent(mass(std::span(panel.model).first(n))), "middle", style + " fill");
  return body;
}

}  // namespace

std::string CutPicture::svg() const {
  const double width = kNames + kBars + kNumbers + kCut * static_cast<double>(cuts.size());
  std::string body;
  double left = 16;
  size_t most = 0;
  for (const Panel& panel : panels) {
    body += svg::text_at(left, kTop - 36, panel.title, "start", "strong");
    body += bars(panel, left);
    for (size_t c = 0; c < cuts.size(); ++c) {
      body += cut_line(panel, cuts[c], c + 1, left + kNames + kBars + kNumbers + kCut * (static_cast<double>(c) + 0.5));
    }
    most = std::max(most, panel.names.size());
    left += width + kGap;
  }
  return svg::document(left - kGap + 16, kTop + kRow * static_cast<double>(most) + 44, title, subtitle, body);
}

}  // namespace folio::experiments
