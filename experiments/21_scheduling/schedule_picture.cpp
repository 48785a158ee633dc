#include "experiments/21_scheduling/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "experiments/21_scheduling/requests.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// The layout of the picture, in pixels.
constexpr double kLeft = 84;
constexpr double kWidth = 800;  // total width of the steps in the longest panel
constexpr double kTop = 92;
constexpr double kLine = 15;
constexpr double kBars = 40;  // height of the bar of the step with the most rows
constexpr double kPanel = kLine * kTrace.size() + kBars + 76;

// The appearance of a kind of cell: its CSS classes, and its text in the legend.
struct Kind {
  std::string classes;
  std::string text;
};

const Kind kPrompt{svg::colour(0) + " fill", "rows of its prompt"};
const Kind kToken{svg::colour(2) + " fill", "one token"};
const Kind kDrafts{svg::colour(3) + " fill", "several tokens: drafts were right"};
const Kind kAgain{svg::colour(1) + " fill", "rows computed again"};
const Kind kKept{"card", "has ended, keeps its place"};

const Kind& kind_of(const Cell& cell, bool began) {
  if (cell.state == Cell::State::HoldsSlot) return kKept;
  if (cell.n_again > 0) return kAgain;
  if (!began) return kPrompt;
  return cell.n_tokens > 1 ? kDrafts : kToken;
}

std::string box(double x, double y, double width, double height) {
  return fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", x, y, width, height, width);
}

std::string column(double x, double width, double y, double height) {
  return box(x + 0.5, y, std::max(1.0, width - 1), height);
}

int64_t rows_of(const std::vector<Cell>& step) {
  return std::accumulate(step.begin(), step.end(), int64_t{0},
                         [](int64_t n, const Cell& cell) { return n + static_cast<int64_t>(cell.n_rows); });
}

// The scale of both axes, shared by all panels of a picture.
struct Scale {
  bool by_cost;
  double pixels = 0.0;    // pixels per step, or per unit of time if by_cost
  int64_t most_rows = 0;  // rows of the largest step

  Scale(std::span<const Schedule> panels, bool by_cost_) : by_cost(by_cost_) {
    double longest = 0.0;
    for (const Schedule& schedule : panels) {
      longest = std::max(longest, places(schedule).back());
      for (const auto& step : schedule.steps) most_rows = std::max(most_rows, rows_of(step));
    }
    pixels = kWidth / longest;
  }

  // Returns the left edge of each step and the right edge of the last one, in steps or units of time.
  std::vector<double> places(const Schedule& schedule) const {
    std::vector<double> places{0.0};
    for (const auto& step : schedule.steps) places.push_back(places.back() + (by_cost ? cost(step) : 1.0));
    return places;
  }
};

class Panel {
 public:
  Panel(const Schedule& schedule, const Scale& scale, double top)
      : schedule_(schedule), scale_(scale), top_(top), x_(scale.places(schedule)) {
    for (double& x : x_) x = kLeft + scale.pixels * x;
  }

  std::string svg() {
    for (size_t i = 0; i < kTrace.size(); ++i) draw_request(i);
    draw_rows();
    text_ += svg::text_at(kLeft, top_ - 8, schedule_.variant.name, "start", "strong");
    for (const auto& [classes, path] : paths_) text_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", classes, path);
    return text_ + dots_ + "\n";
  }

 private:
  void draw_request(size_t i) {
    const double y = top_ + kLine * static_cast<double>(i);
    text_ += svg::text_at(16, y + 11, std::string(1, kTrace[i].name), "start", "strong") +
             svg::text_at(kLeft - 8, y + 11, fmt::format("{}+{}", kTrace[i].n_prompt, kTrace[i].n_tokens), "end");
    bool began = false;
    bool waited = false;  // true if the request waited in the previous step
    for (size_t step = 0; step < schedule_.steps.size(); ++step) {
      const Cell& cell = schedule_.steps[step][i];
      const double x = x_[step];
      const double width = x_[step + 1] - x;
      const bool waits = cell.state == Cell::State::Waits;
      if (cell.preempted) paths_[svg::colour(1) + " line"] += fmt::format("M{:.1f} {:.1f}v13", x, y + 1);
      if (waits && !waited) paths_["line thin ref"] += fmt::format("M{:.1f} {:.1f}", x, y + 7.5);
      if (waits) paths_["line thin ref"] += fmt::format("h{:.1f}", width);
      waited = waits;
      if (waits || cell.state == Cell::State::Absent) continue;
      paths_[kind_of(cell, began).classes] += column(x, width, y + 1.5, kLine - 3);
      if (cell.n_tokens == 0 || began) continue;
      began = true;
      dots_ += fmt::format("<circle class=\"card\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>", x + width / 2, y + 7.5);
    }
  }

  void draw_rows() {
    const double base = top_ + kLine * kTrace.size() + kBars + 6;
    for (size_t step = 0; step < schedule_.steps.size(); ++step) {
      const double height =
          kBars * static_cast<double>(rows_of(schedule_.steps[step])) / static_cast<double>(scale_.most_rows);
      paths_[svg::colour(5) + " fill"] += column(x_[step], x_[step + 1] - x_[step], base - height, height);
    }
    const int apart = scale_.by_cost ? 20 : 10;
    for (int tick = 0; kLeft + scale_.pixels * tick < x_.back(); tick += apart) {
      text_ += svg::text_at(kLeft + scale_.pixels * tick, base + 15, std::to_string(tick), "middle");
    }
    text_ += svg::text_at(kLeft - 8, base - kBars + 9, std::to_string(scale_.most_rows), "end") +
             svg::text_at(kLeft - 8, base - 1, "rows", "end") +
             svg::text_at(x_.back() + 14, base + 15, scale_.by_cost ? "time" : "step");
  }

  const Schedule& schedule_;
  const Scale& scale_;
  double top_;
  std::vector<double> x_;                     // left edges of the steps, and the right edge of the last one
  std::map<std::string, std::string> paths_;  // by CSS class: path data of the shapes of the class
  std::string text_;
  std::string dots_;
};

bool shows(std::span<const Schedule> panels, bool (*is_so)(const Cell&)) {
  return std::any_of(panels.begin(), panels.end(), [&](const Schedule& schedule) {
    return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                       [&](const auto& step) { return std::any_of(step.begin(), step.end(), is_so); });
  });
}

std::string legend(std::span<const Schedule> panels) {
  std::string out;
  double x = kLeft;
  const auto name = [&](const std::string& text) {
    out += svg::text_at(x + 18, 67, text);
    x += 18 + 6.6 * static_cast<double>(text.size()) + 10;
  };
  const auto show = [&](const Kind& kind, bool there) {
    if (!there) return;
    out += fmt::format("<path class=\"{}\" d=\"{}\"/>", kind.classes, box(x, 57, 12, 12));
    name(kind.text);
  };
  show(kPrompt, true);
  show(kToken, true);
  show(kDrafts, shows(panels, [](const Cell& cell) { return cell.n_tokens > 1; }));
  show(kAgain, shows(panels, [](const Cell& cell) { return cell.n_again > 0; }));
  show(kKept, shows(panels, [](const Cell& cell) { return cell.state == Cell::State::HoldsSlot; }));
  if (shows(panels, [](const Cell& cell) { return cell.preempted; })) {
    out += fmt::format("<path class=\"{} line\" d=\"M{:.1f} 57v13\"/>", svg::colour(1), x + 6);
    name("is preempted");
  }
  out += fmt::format("<path class=\"line thin ref\" d=\"M{:.1f} 63h12\"/>", x);
  name("waits");
  out += fmt::format("<path class=\"{}\" d=\"{}\"/>", kPrompt.classes, box(x, 57, 12, 12)) +
         fmt::format("<circle class=\"card\" cx=\"{:.1f}\" cy=\"63\" r=\"2.5\"/>", x + 6);
  name("first token");
  return out;
}

}  // namespace

std::string picture(const std::string& title, std::span<const Schedule> panels, bool by_cost) {
  const Scale scale(panels, by_cost);
  std::string body = legend(panels);
  double top = kTop + 24;
  for (const Schedule& schedule : panels) {
    body += Panel(schedule, scale, top).svg();
    top += kPanel;
  }
  return svg::document(kLeft + kWidth + 50, top - 24, title,
                       by_cost ? "each request: prompt + tokens; a column is as wide as its step takes long"
                               : "each request: prompt + tokens; a column is a step",
                       body);
}

}  // namespace folio::experiments
