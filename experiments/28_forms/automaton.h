// A form as an automaton of states and allowed bytes, for forms with few states, and for display: equivalent states are
// merged, and forced sequences of bytes become one arrow.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <vector>

#include "infer/forms/form.h"

namespace folio::experiments {

struct Automaton {
  /// Accepts one byte of `bytes`, or the whole sequence `run`.
  struct Arrow {
    size_t to;
    std::bitset<256> bytes{};
    std::string run{};
    bool operator==(const Arrow&) const = default;
  };
  struct State {
    std::vector<Arrow> arrows{};  ///< in order of their first byte
    bool may_end = false;
    /// Number of states in a chain that this one stands for: each leads to the next, and their other arrows are equal.
    /// This is the first of them.
    size_t n_alike = 1;
  };
  std::vector<State> states;  ///< the first is the start state

  /// Builds a form's automaton. Throws core::Error if it has more than `most` states.
  static Automaton of(infer::forms::Form& form, size_t most = 1000);

  /// Returns a version for display, with runs, and with chains of similar states merged.
  [[nodiscard]] Automaton shortened() const;

  /// Returns an SVG document with the states in a row.
  [[nodiscard]] std::string svg(const std::string& title, const std::string& subtitle) const;
};

/// Formats a set of bytes for display: "A–Z a–z ' ␣".
[[nodiscard]] std::string shown(const std::bitset<256>& bytes);
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace folio::experiments
