// The finite automaton of a form (a constraint on outputs), for counting and drawing states. Equivalent states are
// merged; for display, forced sequences of bytes become one arrow.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <vector>

#include "infer/forms/form.h"

namespace folio::experiments {

struct Automaton {
  /// A transition to the state `to`: on one byte of `bytes`, or on the whole sequence `run` if it isn't empty.
  struct Arrow {
    size_t to;
    std::bitset<256> bytes{};
    std::string run{};
    bool operator==(const Arrow&) const = default;
  };
  struct State {
    std::vector<Arrow> arrows{};  ///< in order of their first byte
    bool may_end = false;
    /// Number of states that shortened() merged into this one, which differ only in the next state; 1: not merged.
    size_t n_alike = 1;
  };
  std::vector<State> states;  ///< the first is the start state

  /// Returns a form's automaton with equivalent states merged. Throws core::Error if it has more than 1,000 states
  /// before merging.
  static Automaton of(infer::forms::Form& form);

  /// Returns a smaller automaton for display: a forced sequence of bytes becomes a single arrow, and a chain of states
  /// that differ only in their arrow to the next one becomes a single state.
  [[nodiscard]] Automaton shortened() const;

  /// Returns an SVG document with the states in a row.
  [[nodiscard]] std::string svg(const std::string& title, const std::string& subtitle) const;
};

/// Formats a set of bytes for display: "A–Z a–z ' ␣".
[[nodiscard]] std::string shown(const std::bitset<256>& bytes);

}  // namespace folio::experiments
