// Adds a finite automaton to a Grammar as a part.
#include "infer/forms/grammar.h"

namespace folio::infer::forms {

Grammar::Part Grammar::automaton(size_t n_states, std::span<const Transition> transitions,
                                 std::span<const int32_t> accepting) {
  const State begin = add_state();
  const auto first = static_cast<State>(states_.size());
  for (size_t i = 0; i < n_states; ++i) (void)add_state();
  const State end = add_state();
  join(begin, first);
  for (const Transition& t : transitions) {
    add_edge(first + t.from, {t.rule < 0 ? Edge::Kind::Bytes : Edge::Kind::Call, t.low, t.high, t.rule, first + t.to});
  }
  for (const int32_t state : accepting) join(first + state, end);
  return {.begin = begin, .end = end};
}

}  // namespace folio::infer::forms
