// A set of strings as a deterministic automaton over code points, for conditions that one regular expression can't
// express, such as a pattern with a limit on the length, or a match of one expression but not of another.
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
  // Constructing and combining automata spends steps of `budget` for states, edges and explored transitions.
  /// Accepts strings of `least` to `most` characters; `most` < 0: no limit.
  CharacterAutomaton(int64_t least, int64_t most, core::WorkBudget budget);
  /// Accepts the strings that `syntax` matches. It must not contain Begin, End or Call.
  CharacterAutomaton(const Syntax& syntax, core::WorkBudget budget);
  /// Accepts exactly the strings `texts`, encoded in UTF-8.
  CharacterAutomaton(std::span<const std::string> texts, core::WorkBudget budget);

  // Intersection and difference. Like the constructors, they throw core::Error if there are too many states.
  [[nodiscard]] CharacterAutomaton and_also(const CharacterAutomaton& other) const { return product(other, false); }
  [[nodiscard]] CharacterAutomaton but_not(const CharacterAutomaton& other) const { return product(other, true); }

  [[nodiscard]] bool takes(std::string_view utf8) const;
  [[nodiscard]] bool takes_nothing() const;
  [[nodiscard]] Grammar::Part build(Grammar& grammar, const CharacterPart& characters) const;

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
