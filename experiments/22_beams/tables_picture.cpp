#include "experiments/22_beams/tables_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// The layout of the picture, in pixels.
constexpr double kLeft = 70;
constexpr double kTop = 88;
constexpr double kWidth = 800;
constexpr double kBlock = 11;
constexpr double kBetween = 14;  // gap between the lanes of two beams

std::map<infer::BlockId, size_t> holders(const SearchStep& step) {
  std::map<infer::BlockId, size_t> n;
  for (const SearchStep::Beam& beam : step.beams) {
    for (const infer::BlockId block : beam.blocks) ++n[block];
  }
  return n;
}

}  // namespace

size_t blocks_held(const SearchStep& step) { return holders(step).size(); }

std::string tables_picture(std::span<const SearchStep> steps, size_t width) {
  size_t most = 0;
  for (const SearchStep& step : steps) {
    for (const SearchStep::Beam& beam : step.beams) most = std::max(most, beam.blocks.size());
  }
  const double lane = kBlock * static_cast<double>(most) + kBetween;
  const double column = kWidth / static_cast<double>(steps.size());
  std::map<std::string, std::string> paths;  // SVG path data by CSS class
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto held_by = holders(steps[s]);
    for (const SearchStep::Beam& beam : steps[s].beams) {
      const double bottom = kTop + lane * static_cast<double>(beam.index + 1) - kBetween;
      for (size_t b = 0; b < beam.blocks.size(); ++b) {
        const size_t n = held_by.at(beam.blocks[b]);
        const size_t colour = n == 1 ? 1 : n == steps[s].beams.size() ? 0 : 2;
        paths[svg::colour(colour) + " fill"] +=
            fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", kLeft + column * static_cast<double>(s) + 0.5,
                        bottom - kBlock * static_cast<double>(b + 1) + 0.5, std::max(1.0, column - 1), kBlock - 1,
                        std::max(1.0, column - 1));
      }
    }
  }
  std::string body;
  for (const auto& [classes, path] : paths) body += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", classes, path);
  for (size_t i = 0; i < width; ++i) {
    body += svg::text_at(kLeft - 10, kTop + lane * static_cast<double>(i + 1) - kBetween - 2,
                         fmt::format("beam {}", i + 1), "end");
  }
  const double below = kTop + lane * static_cast<double>(width) + 6;
  for (size_t s = 0; s < steps.size(); s += 8) {
    body += svg::text_at(kLeft + column * (static_cast<double>(s) + 0.5), below, std::to_string(s + 1), "middle");
  }
  body += svg::text_at(kLeft + kWidth + 12, below, "step");
  double x = kLeft;
  for (const auto& [colour, text] : {std::pair{0, "held by all"}, {2, "held by some"}, {1, "held by one"}}) {
    body += fmt::format("<path class=\"{} fill\" d=\"M{:.1f} 57h12v12h-12z\"/>",
                        svg::colour(static_cast<size_t>(colour)), x) +
            svg::text_at(x + 18, 67, text);
    x += 120;
  }
  return svg::document(kLeft + kWidth + 60, below + 16, "The blocks of four beams",
                       "each beam's table: blocks of 32 positions on each other, the prompt's at the bottom", body);
}

}  // namespace folio::experiments
