// A form as an automaton: every place that a text can come to, and which bytes lead where. For forms with few places,
// and for people: places from which the same can follow are one state, and bytes that have to come one after the other
// are one arrow.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <vector>

#include "infer/forms/form.h"

namespace folio::experiments {

struct Automaton {
  /// Either one byte of `bytes`, or all of `run` in this order.
  struct Arrow {
    size_t to;
    std::bitset<256> bytes{};
    std::string run{};
    bool operator==(const Arrow&) const = default;
  };
  struct State {
    std::vector<Arrow> arrows{};  ///< in order of their first byte
    bool may_end = false;
    /// States that stand for this one and so many minus one others, each of which an arrow leads to from the one
    /// before; their other arrows are the same. It is the first of them.
    size_t n_alike = 1;
  };
  std::vector<State> states;  ///< the first is the start

  /// Throws core::Error if there are more than `most` places.
  static Automaton of(infer::forms::Form& form, size_t most = 1000);

  /// With runs, and with states that are alike one after the other drawn together.
  [[nodiscard]] Automaton shortened() const;

  /// One SVG document: the states in a row.
  [[nodiscard]] std::string svg(const std::string& title, const std::string& subtitle) const;
};

/// "A–Z a–z ' ␣": bytes for people.
[[nodiscard]] std::string shown(const std::bitset<256>& bytes);
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace folio::experiments
