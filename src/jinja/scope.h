// State of a rendering: its for loops, and the variables of each scope.
#pragma once

#include <functional>
#include <optional>

#include "core/error.h"
#include "jinja/value.h"

namespace folio::data::jinja {

// State of a for loop. Items are filtered on demand, because the filter may read variables that the loop's body
// changes.
struct Loop {
  std::vector<Value> items;
  std::function<bool(const Value&)> accepts;  ///< the loop's filter; if empty, all items are accepted
  size_t next = 0;                            ///< index of the first item that has not been filtered
  std::optional<Value> ahead{};
  Value before{};
  Value current{};
  int64_t index0 = -1;
  int64_t depth0 = 0;                           ///< depth in a recursive loop: 0 for the outermost
  std::optional<std::vector<Value>> changed{};  ///< last arguments of loop.changed()
  std::function<Value(const Value&)> call{};    ///< recursive loops: returns the body's output for another list
  std::optional<int64_t> n_items{};
  bool is_filtering = false;  ///< true while accepts() runs, whose template code may have this loop in a namespace

  /// Returns true if the loop's filter accepts the item.
  bool passes(const Value& item) {
    if (!accepts) return true;
    is_filtering = true;
    const bool passed = accepts(item);
    is_filtering = false;
    return passed;
  }
  void require_idle() const {
    if (is_filtering) core::fail("the condition of a loop cannot use the later items of the same loop");
  }
  const std::optional<Value>& peek() {
    require_idle();
    while (!ahead && next < items.size()) {
      Value item = items[next++];
      if (passes(item)) ahead = std::move(item);
    }
    return ahead;
  }
  /// Filters all remaining items and returns the total number of items in the loop, as loop.length does.
  int64_t length() {
    if (n_items) return *n_items;
    const bool has_next = peek().has_value();
    std::vector<Value> rest;
    for (; next < items.size(); ++next) {
      if (passes(items[next])) rest.push_back(items[next]);
    }
    items = std::move(rest);
    next = 0;
    accepts = {};
    n_items = index0 + 1 + (has_next ? 1 : 0) + static_cast<int64_t>(items.size());
    return *n_items;
  }
  bool advance() {
    if (!peek()) return false;
    before = std::exchange(current, *std::exchange(ahead, std::nullopt));
    ++index0;
    return true;
  }
};

/// The variables of a block. A lookup continues in the enclosing blocks.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables{};

  void set(std::string_view name, Value value) {
    for (auto& [known, old] : variables) {
      if (known == name) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(name, std::move(value));
  }
  /// Returns the variable or null. Adds the number of visited names and scopes to *n_compared, if not null.
  [[nodiscard]] const Value* find(std::string_view name, size_t* n_compared = nullptr) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
      if (n_compared != nullptr) *n_compared += 1 + scope->variables.size();
      for (const auto& [known, value] : scope->variables) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }
};

}  // namespace folio::data::jinja
