// A set of texts as a deterministic automaton over code points: for what a regular expression alone can't say, that a
// text also has a length, or matches one expression and not another.
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
  // States, edges and what is followed to find them are steps of the budget, here and in what is made of it.
  /// Texts of `least` to `most` characters; `most` < 0: without end.
  CharacterAutomaton(int64_t least, int64_t most, core::WorkBudget budget);
  /// Texts of an expression, which has no Begin, no End and no Call.
  CharacterAutomaton(const Syntax& syntax, core::WorkBudget budget);
  /// These texts, in UTF-8.
  CharacterAutomaton(std::span<const std::string> texts, core::WorkBudget budget);

  // All throw core::Error if there are too many states.
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
  std::vector<std::vector<Edge>> edges_;  ///< of each state; in order, without overlap. The first state is the start.
  std::vector<bool> accepts_;
};

}  // namespace folio::infer::forms
