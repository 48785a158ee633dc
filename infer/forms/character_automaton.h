// A set of strings as a deterministic automaton over code points, for conditions that one regular expression can't
// express, such as a pattern with a limit on the length, or a match of one expression but not of another.
// Characters can also be bytes: see build_bytes().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/work_budget.h"
#include "infer/forms/grammar.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

class CharacterAutomaton {
 public:
  // Building or combining automata costs steps of `budget`: about one per state, edge and explored transition.
  /// Accepts strings of `least` to `most` characters; `most` < 0: no limit.
  CharacterAutomaton(int64_t least, int64_t most, core::WorkBudget budget);
  /// Accepts the strings that `syntax` matches. It must not contain Begin, End or Call.
  CharacterAutomaton(const Syntax& syntax, core::WorkBudget budget);
  /// Accepts exactly the strings `texts`, encoded in UTF-8.
  CharacterAutomaton(std::span<const std::string> texts, core::WorkBudget budget);
  /// Copies `other`. Operations on the copy spend steps of `budget`.
  CharacterAutomaton(const CharacterAutomaton& other, core::WorkBudget budget) : CharacterAutomaton(other) {
    budget_ = std::move(budget);
  }
  /// Returns the automaton for numbers >= `least`, or > `least` if `strictly`. Correct only for numbers with as many
  /// digits before the point as `least`, and the same exponent. The fraction of `least` must not end in 0.
  [[nodiscard]] static CharacterAutomaton at_least(std::string_view least, bool strictly, core::WorkBudget budget);
  /// Returns the automaton that accepts the multiples of `divisor` in decimal notation, and the empty string.
  [[nodiscard]] static CharacterAutomaton multiples(uint32_t divisor, core::WorkBudget budget);

  // Intersection and difference. Like the constructors, they throw core::Error if there are too many states.
  [[nodiscard]] CharacterAutomaton and_also(const CharacterAutomaton& other) const { return product(other, false); }
  [[nodiscard]] CharacterAutomaton but_not(const CharacterAutomaton& other) const { return product(other, true); }

  [[nodiscard]] bool accepts(std::string_view utf8) const;
  /// Returns true if no string is accepted.
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] Grammar::Part build(Grammar& grammar, const CharacterPart& characters) const;
  /// Returns the part for byte strings: each character up to 255 is a byte. Larger characters never match.
  [[nodiscard]] Grammar::Part build_bytes(Grammar& grammar) const;

 private:
  struct Edge {
    uint32_t low, high;
    int32_t to;
  };

  explicit CharacterAutomaton(core::WorkBudget budget) : budget_(std::move(budget)) {}
  [[nodiscard]] int32_t add_state();
  [[nodiscard]] int32_t after(int32_t state, uint32_t character) const;
  [[nodiscard]] CharacterAutomaton product(const CharacterAutomaton& other, bool negated) const;

  core::WorkBudget budget_;
  std::vector<std::vector<Edge>> edges_;  ///< edges of each state, sorted and disjoint; state 0 is the start
  std::vector<bool> accepts_;
};

}  // namespace folio::infer::forms
