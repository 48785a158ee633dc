// What a rendering's blocks keep: a loop's place in its items, and the variables of a block.
#pragma once

#include <functional>
#include <optional>

#include "jinja/value.h"

namespace folio::data::jinja {

// A for loop. The next item is looked for when somebody asks: a loop's filter may depend on what its body does.
struct Loop {
  std::vector<Value> items;
  std::function<bool(const Value&)> accepts;  ///< empty: all
  size_t next = 0;                            ///< of `items`, the first that was not looked at
  std::optional<Value> ahead{};
  Value before{};
  Value current{};
  int64_t index0 = -1;
  int64_t depth0 = 0;                           ///< of a recursive loop
  std::optional<std::vector<Value>> changed{};  ///< what loop.changed() was given last
  std::function<Value(const Value&)> call{};    ///< of a recursive loop: its text for other items
  std::optional<int64_t> n_items{};

  const std::optional<Value>& peek() {
    while (!ahead && next < items.size()) {
      Value item = items[next++];
      if (!accepts || accepts(item)) ahead = std::move(item);
    }
    return ahead;
  }
  /// Looks at all items.
  int64_t length() {
    if (n_items) return *n_items;
    const bool has_next = peek().has_value();
    std::vector<Value> rest;
    for (; next < items.size(); ++next) {
      if (!accepts || accepts(items[next])) rest.push_back(items[next]);
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

/// A block's variables; those of the blocks around it can be read.
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
  /// `n_compared`, if it isn't null, gets how many names and scopes were looked at.
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
