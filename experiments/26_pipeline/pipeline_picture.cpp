#include "experiments/26_pipeline/pipeline_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;
using train::parallel::Action;
using Kind = Action::Kind;

// The layout of the picture, in pixels.
constexpr double kLeft = 64;
constexpr double kWidth = 1000;  // width of the longest panel
constexpr double kLine = 16;
constexpr double kBox = 13;
constexpr double kNumber = 9;  // minimum width of a box with a number

struct Named {
  Kind kind;
  const char* text;
  size_t colour;
};
constexpr std::array kKinds = {Named{Kind::Forward, "forward", 1}, Named{Kind::Backward, "backward", 2},
                               Named{Kind::BackwardInput, "backward, for the input", 0},
                               Named{Kind::BackwardWeights, "backward, for the weights", 3}};

const Named& named(Kind kind) {
  return *std::find_if(kKinds.begin(), kKinds.end(), [&](const Named& named) { return named.kind == kind; });
}

// Returns the path data of a box, drawn as a thick line, which needs half the characters of a rectangle.
std::string thick_line(double x, double y, double width) {
  return fmt::format("M{:.1f} {:g}h{:.1f}", x, y + kBox / 2, width);
}

std::string path(Kind kind, const std::string& d) {
  if (d.empty()) return "";
  return fmt::format("<path class=\"{}\" stroke-width=\"{:g}\" d=\"{}\"/>\n", svg::colour(named(kind).colour), kBox, d);
}

// Returns a panel whose first line is at `top`. `pixels` is the width of a unit of time.
std::string svg_of(const Panel& panel, double top, double pixels) {
  std::string out = svg::text_at(kLeft, top - 8, panel.title, "start", "strong");
  std::array<std::string, kKinds.size()> paths;  // path data of all boxes of a kind
  std::string numbers;
  for (size_t rank = 0; rank < panel.timeline.size(); ++rank) {
    const double y = top + kLine * static_cast<double>(rank);
    out += svg::text_at(kLeft - 8, y + 11, fmt::format("rank {}", rank), "end");
    for (const Box& box : panel.timeline[rank]) {
      const double width = pixels * static_cast<double>(box.end - box.start) - 0.8;  // leaves a gap between boxes
      const double each = std::max(0.5, width / static_cast<double>(box.actions.size()));
      double x = kLeft + pixels * static_cast<double>(box.start);
      for (const Action& action : box.actions) {  // overlapped actions are drawn side by side
        paths[static_cast<size_t>(&named(action.kind) - kKinds.data())] += thick_line(x, y + 1, each);
        if (each >= kNumber) {
          numbers +=
              fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x + each / 2, y + kLine - 6, action.microbatch);
        }
        x += each;
      }
    }
  }
  for (size_t i = 0; i < kKinds.size(); ++i) out += path(kKinds[i].kind, paths[i]);
  return out + "<g class=\"on\" text-anchor=\"middle\">" + numbers + "</g>\n";
}

bool shows(const std::vector<Panel>& panels, auto&& is_so) {
  for (const Panel& panel : panels) {
    for (const auto& boxes : panel.timeline) {
      if (std::any_of(boxes.begin(), boxes.end(), is_so)) return true;
    }
  }
  return false;
}

std::string legend(const std::vector<Panel>& panels) {
  std::string out;
  double x = kLeft;
  const auto name = [&](const std::string& text) {
    out += svg::text_at(x + 18, 72, text);
    x += 18 + 6.6 * static_cast<double>(text.size()) + 14;
  };
  for (const Named& kind : kKinds) {
    if (!shows(panels, [&](const Box& box) { return box.actions.front().kind == kind.kind; })) continue;
    out += path(kind.kind, thick_line(x, 62, 12));
    name(kind.text);
  }
  if (shows(panels, [](const Box& box) { return box.actions.size() > 1; })) {
    out += path(Kind::Forward, thick_line(x, 62, 6)) + path(Kind::Backward, thick_line(x + 6, 62, 6));
    name("both at once");
  }
  return out;
}

}  // namespace

std::string picture(const std::string& title, const std::string& subtitle, const std::vector<Panel>& panels) {
  int64_t longest = 1;
  for (const Panel& panel : panels) longest = std::max(longest, end_of(panel.timeline));
  const double pixels = kWidth / static_cast<double>(longest);
  // Microbatch numbers have the background color. The common SVG style's text classes would also add an outline.
  std::string body =
      "<style>.on text{font-size:8px;fill:#fff}@media(prefers-color-scheme:dark){.on text{fill:#0d1117}}</style>\n";
  body += legend(panels);
  double top = 112;
  for (const Panel& panel : panels) {
    body += svg_of(panel, top, pixels);
    top += kLine * static_cast<double>(panel.timeline.size()) + 36;
  }
  return svg::document(kLeft + kWidth + 24, top - 16, title, subtitle, body);
}

}  // namespace folio::experiments
