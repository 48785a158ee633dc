#include "experiments/14_tape/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <vector>

#include "train/report/svg.h"

namespace folio::tape {
namespace {

namespace svg = train::svg;

constexpr double kWidth = 138, kHeight = 62, kGapX = 18, kGapY = 34, kMargin = 18, kHeader = 66;

// A box of the picture, or a bend: the point where a line between boxes on distant levels crosses a level in between.
struct Item {
  const Node* node = nullptr;  // null for a bend
  size_t level = 0;            // row of the picture, 0 at the bottom; higher than all items that use this one
  double x = 0.0;              // horizontal center
  struct Use {
    Item* item;
    double port;  // horizontal offset of the line's end from the center of `item`
  };
  std::vector<Use> users{};  // ends of the lines from this item: boxes or bends one level below
  [[nodiscard]] double width() const { return node == nullptr ? 0.0 : kWidth; }
  [[nodiscard]] double wanted() const {
    double sum = 0.0;
    for (const Use& use : users) sum += (use.item->x + use.port) / static_cast<double>(users.size());
    return sum;
  }
};

// Creates boxes for the last tape entry and all entries that it depends on, and bends where lines between non-adjacent
// levels cross a level. Returns both by level.
std::vector<std::vector<Item*>> connect(const Tape& tape, std::deque<Item>& items) {
  std::map<const Node*, Item*> boxes;
  const auto box_of = [&](const Node* node) {
    Item*& box = boxes[node];
    if (box == nullptr) box = &items.emplace_back(Item{.node = node});
    return box;
  };
  std::vector<Item*> order{box_of(&tape.nodes().back())};
  for (auto node = tape.nodes().rbegin(); node != tape.nodes().rend(); ++node) {
    if (!boxes.contains(&*node)) continue;
    Item* box = boxes[&*node];
    if (box != order.front()) order.push_back(box);
    for (const Node* input : node->inputs) box_of(input)->level = std::max(box_of(input)->level, box->level + 1);
  }
  std::vector<std::vector<Item*>> levels;
  const auto place = [&](Item* item) {
    levels.resize(std::max(levels.size(), item->level + 1));
    levels[item->level].push_back(item);
  };
  for (Item* box : order) place(box);
  for (Item* box : order) {
    const auto& inputs = box->node->inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Item::Use use{box, (static_cast<double>(i) - (static_cast<double>(inputs.size()) - 1) / 2) * 36};
      for (size_t level = box->level + 1; level < boxes[inputs[i]]->level; ++level) {
        items.push_back({.level = level, .users = {use}});
        place(&items.back());
        use = {&items.back(), 0.0};
      }
      boxes[inputs[i]]->users.push_back(use);
    }
  }
  return levels;
}

// Sets x of all items: sorts the items of each level by the mean x of their users, then centers the level. Returns the
// width of the picture, at least `least`.
double spread_out(std::vector<std::vector<Item*>>& levels, double least) {
  const auto length_of = [](const std::vector<Item*>& row) {
    double length = -kGapX;
    for (const Item* item : row) length += item->width() + kGapX;
    return length;
  };
  double width = least;
  for (const auto& row : levels) width = std::max(width, 2 * kMargin + length_of(row));
  for (auto& row : levels) {
    std::stable_sort(row.begin(), row.end(), [](const Item* a, const Item* b) { return a->wanted() < b->wanted(); });
    double left = (width - length_of(row)) / 2;
    for (Item* item : row) {
      item->x = left + item->width() / 2;
      left += item->width() + kGapX;
    }
  }
  return width;
}

std::string box(const Node& node, double x, double y) {
  const bool number = node.shape.size() == 1;
  const double norm =
      std::sqrt(std::inner_product(node.gradient.begin(), node.gradient.end(), node.gradient.begin(), 0.0));
  const std::string value = number ? fmt::format("{:.4g}", node.value[0]) : shown(node.shape);
  const std::string gradient =
      number ? fmt::format("gradient {:.4g}", node.gradient[0]) : fmt::format("|gradient| {:.2g}", norm);
  return fmt::format("<rect class=\"card {}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:g}\" height=\"{:g}\" rx=\"6\"/>\n",
                     svg::colour(node.inputs.empty() ? 0 : 2), x - kWidth / 2, y, kWidth, kHeight) +
         svg::text_at(x, y + 18, node.operation, "middle", "strong") + svg::text_at(x, y + 36, value, "middle") +
         svg::text_at(x, y + 53, gradient, "middle", svg::colour(1) + " fill");
}

}  // namespace

std::string graph_svg(const Tape& tape, const std::string& title, const std::string& subtitle) {
  std::deque<Item> items;
  auto levels = connect(tape, items);
  const double width =
      spread_out(levels, 2 * kMargin + svg::kCharacterWidth * static_cast<double>(svg::count_characters(subtitle)));
  const auto top = [&](const Item& item) {
    return kHeader + static_cast<double>(levels.size() - 1 - item.level) * (kHeight + kGapY);
  };
  std::string body;
  for (const Item& item : items) {
    const double y = top(item), bottom = y + kHeight;
    for (const auto& [user, port] : item.users) {
      body += fmt::format(
          "<path class=\"line thin ref\" style=\"stroke-dasharray:none\" d=\"M{0:.1f} {1:.1f}V{2:.1f}C{0:.1f} {3:.1f} "
          "{4:.1f} {3:.1f} {4:.1f} {5:.1f}\"/>\n",
          item.x, item.node == nullptr ? y : bottom, bottom, bottom + kGapY / 2, user->x + port, top(*user));
    }
    if (item.node != nullptr) body += box(*item.node, item.x, y);
  }
  const double height = kHeader + static_cast<double>(levels.size()) * (kHeight + kGapY) - kGapY + kMargin;
  return svg::document(width, height, title, subtitle, body);
}

}  // namespace folio::tape
