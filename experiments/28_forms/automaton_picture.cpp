// Draws an automaton's states in a row, ordered so that arrows point to the right, except those that close a cycle.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "experiments/28_forms/automaton.h"
#include "experiments/common/report.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// The layout of the picture, in pixels.
constexpr double kRadius = 13;
constexpr double kLine = 15;
constexpr double kLevel = 44;  // vertical distance between nested arcs
constexpr double kLeft = 56;

struct Drawn {
  size_t from, to;  // positions of the two states in the row
  std::vector<std::string> labels;
};

double width_of(const std::vector<std::string>& labels) {
  size_t most = 0;
  for (const std::string& label : labels) most = std::max(most, svg::count_characters(label));
  return svg::kCharacterWidth * static_cast<double>(most);
}

// Returns each state's position in the row: topological order, ignoring the arrows that close cycles (reverse postorder
// of a DFS, Tarjan 1976).
std::vector<size_t> places_in_row(const std::vector<Automaton::State>& states) {
  std::vector<bool> seen(states.size(), false);
  std::vector<size_t> place(states.size());
  size_t left = states.size();
  const std::function<void(size_t)> visit = [&](size_t s) {
    seen[s] = true;
    for (auto arrow = states[s].arrows.rbegin(); arrow != states[s].arrows.rend(); ++arrow) {
      if (!seen[arrow->to]) visit(arrow->to);
    }
    place[s] = --left;
  };
  visit(0);
  return place;
}

std::string arrow_head(double x, double y, bool up, bool right) {
  if (right) return fmt::format("M{:.1f} {:.1f}l-7 -4v8z", x, y);
  return fmt::format("M{:.1f} {:.1f}l-4 {}h8z", x, y, up ? 7 : -7);
}

// Returns each arc's level (0: nearest to the row) among the arcs on one side of the row. Arcs whose spans overlap get
// different levels, so that no arc crosses another's label.
std::vector<size_t> levels_of(const std::vector<Drawn>& arcs) {
  std::vector<size_t> order(arcs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto low = [&](size_t i) { return std::min(arcs[i].from, arcs[i].to); };
  const auto high = [&](size_t i) { return std::max(arcs[i].from, arcs[i].to); };
  std::ranges::stable_sort(order, {}, [&](size_t i) { return high(i) - low(i); });
  std::vector<size_t> levels(arcs.size(), 0);
  for (size_t n = 0; n < order.size(); ++n) {
    for (size_t m = 0; m < n; ++m) {
      if (low(order[m]) < high(order[n]) && low(order[n]) < high(order[m])) {
        levels[order[n]] = std::max(levels[order[n]], levels[order[m]] + 1);
      }
    }
  }
  return levels;
}

}  // namespace

std::string Automaton::svg(const std::string& title, const std::string& subtitle) const {
  const std::vector<size_t> place = places_in_row(states);
  std::map<std::pair<size_t, size_t>, std::vector<std::string>> between;
  for (size_t s = 0; s < states.size(); ++s) {
    for (const Arrow& arrow : states[s].arrows) {
      std::string label = arrow.run.empty() ? shown(arrow.bytes) : visible(arrow.run);
      if (arrow.to == s && states[s].n_alike > 1) label += ": next";
      between[{place[s], place[arrow.to]}].push_back(label);
    }
  }
  std::vector<Drawn> straight, above, below, loops;
  for (const auto& [ends, labels] : between) {
    const auto [from, to] = ends;
    (from == to ? loops : to == from + 1 ? straight : to > from ? above : below).push_back({from, to, labels});
  }
  std::vector<double> gap(states.size(), 62);
  for (const Drawn& d : straight) gap[d.from] = std::max(gap[d.from], width_of(d.labels) + 2 * kRadius + 24);
  for (const Drawn& d : loops) {
    for (const size_t side : {d.from, d.from - 1}) {
      if (side < gap.size()) gap[side] = std::max(gap[side], width_of(d.labels) / 2 + kRadius + 26);
    }
  }
  std::vector<double> x{kLeft};
  for (size_t i = 0; i + 1 < states.size(); ++i) x.push_back(x.back() + gap[i]);

  const auto levels_above = levels_of(above), levels_below = levels_of(below);
  size_t most_lines = 1, n_above = 0, n_below = 0;
  for (const Drawn& d : straight) most_lines = std::max(most_lines, d.labels.size());
  for (const size_t level : levels_above) n_above = std::max(n_above, level + 1);
  for (const size_t level : levels_below) n_below = std::max(n_below, level + 1);
  // Height above the row for the labels of straight arrows and for loops (arrows from a state to itself).
  const double on_row = std::max(kLine * static_cast<double>(most_lines), loops.empty() ? 0.0 : 48.0);
  const double y = 72 + kLevel * static_cast<double>(n_above) + on_row + kRadius;

  std::string body;
  const auto line = [&](const std::string& path, const std::string& head, size_t colour) {
    body += fmt::format("<path class=\"line thin {0}\" d=\"{1}\"/><path class=\"{0} fill\" d=\"{2}\"/>\n",
                        svg::colour(colour), path, head);
  };
  std::string words_body;  // labels, drawn on top of all lines
  const auto words = [&](double middle, double bottom, const std::vector<std::string>& labels) {
    for (size_t i = 0; i < labels.size(); ++i) {
      const double y_text = bottom - kLine * static_cast<double>(labels.size() - 1 - i);
      const double wide = width_of({labels[i]});
      words_body += fmt::format(
          "<rect class=\"card\" style=\"stroke:none\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\"/>\n",
          middle - wide / 2, y_text - 11, wide);
      words_body += svg::text_at(middle, y_text, labels[i], "middle", "strong");
    }
  };
  line(fmt::format("M{:.1f} {:.1f}H{:.1f}", x[0] - kRadius - 24, y, x[0] - kRadius - 6),
       arrow_head(x[0] - kRadius, y, false, true), 0);
  for (const Drawn& d : straight) {
    const double from = x[d.from] + kRadius, to = x[d.to] - kRadius;
    line(fmt::format("M{:.1f} {:.1f}H{:.1f}", from, y, to - 6), arrow_head(to, y, false, true), 0);
    words((from + to) / 2, y - 6, d.labels);
  }
  for (const Drawn& d : loops) {
    const double top = y - kRadius;
    line(fmt::format("M{0:.1f} {1:.1f}c-16 -34 28 -34 {2} 0", x[d.from] - 6, top + 1.5, 12),
         arrow_head(x[d.from] + 6, top + 1.5, false, false), 2);
    const auto meets = [&](const Drawn& arc) { return arc.from == d.from || arc.to == d.from; };
    const bool aside = std::ranges::any_of(above, meets);  // an arc meets the state: move the loop's label left
    words(x[d.from] - (aside ? width_of(d.labels) / 2 : 0.0), top - 30, d.labels);
  }
  for (size_t i = 0; i < above.size(); ++i) {
    const Drawn& d = above[i];
    const double peak = kLevel * static_cast<double>(levels_above[i]) + on_row + 14;
    const double from = x[d.from] + 5, to = x[d.to] - 5, top = y - kRadius;
    line(fmt::format("M{0:.1f} {1:.1f}C{0:.1f} {2:.1f} {3:.1f} {2:.1f} {3:.1f} {4:.1f}", from, top + 1,
                     top - peak / 0.75, to, top - 6),
         arrow_head(to, top, false, false), 0);
    words((from + to) / 2, top - peak - 4, d.labels);
  }
  for (size_t i = 0; i < below.size(); ++i) {
    const Drawn& d = below[i];
    const double depth = kLevel * static_cast<double>(levels_below[i]) + 30;
    const double from = x[d.from] - 5, to = x[d.to] + 5, bottom = y + kRadius;
    line(fmt::format("M{0:.1f} {1:.1f}C{0:.1f} {2:.1f} {3:.1f} {2:.1f} {3:.1f} {4:.1f}", from, bottom - 1,
                     bottom + depth / 0.75, to, bottom + 6),
         arrow_head(to, bottom, true, false), 1);
    words((from + to) / 2, bottom + depth + 14, d.labels);
  }
  for (size_t s = 0; s < states.size(); ++s) {
    const double at = x[place[s]];
    body += fmt::format("<circle class=\"card\" style=\"stroke-width:1.5\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>\n",
                        at, y, kRadius);
    if (states[s].may_end) {
      body += fmt::format("<circle class=\"line thin {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>\n", svg::colour(0), at,
                          y, kRadius - 4);
    }
    if (states[s].n_alike > 1) {
      body += svg::text_at(at, y + 4, fmt::format("×{}", states[s].n_alike), "middle", "strong");
    } else if (!states[s].may_end) {
      body += svg::text_at(at, y + 4, std::to_string(place[s]), "middle");
    }
  }
  body += words_body;
  const double height = y + kRadius + (below.empty() ? 16 : kLevel * static_cast<double>(n_below) + 14) + 10;
  return svg::document(std::max(x.back() + 50, 16 + 6.6 * static_cast<double>(svg::count_characters(subtitle))), height,
                       title, subtitle, body);
}

}  // namespace folio::experiments
