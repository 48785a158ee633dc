// Adds finite automata to a Grammar as parts.
#include <algorithm>

#include "infer/forms/grammar.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

Grammar::Part Grammar::automaton(std::span<const Transition> transitions, const std::vector<bool>& accepts) {
  const State begin = add_state();
  const auto first = static_cast<State>(states_.size());
  for (size_t i = 0; i < accepts.size(); ++i) (void)add_state();
  const State end = add_state();
  join(begin, first);
  for (const Transition& t : transitions) {
    add_edge(first + t.from, {t.rule < 0 ? Edge::Kind::Bytes : Edge::Kind::Call, t.low, t.high, t.rule, first + t.to});
  }
  for (size_t i = 0; i < accepts.size(); ++i) {
    if (accepts[i]) join(first + static_cast<State>(i), end);
  }
  return {.begin = begin, .end = end};
}

Grammar::Part Grammar::characters(std::span<const std::pair<uint32_t, uint32_t>> ranges) {
  const std::vector<Spelling> spellings = utf8_spellings(ranges);
  budget_.spend(ranges.size() + spellings.size());
  const State begin = add_state();
  const State end = add_state();
  build_spellings(
      spellings, begin, end, [&] { return add_state(); },
      [&](State from, uint8_t low, uint8_t high, State to) {
        add_edge(from, {Edge::Kind::Bytes, low, high, -1, to});
      });
  return {.begin = begin, .end = end};
}

Grammar::Part Grammar::texts(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  std::vector<Transition> transitions;
  std::vector<bool> accepts{false};
  std::vector<int32_t> way{0};  // states reached by the prefixes of the previous string
  std::string_view before;
  for (const std::string& text : texts) {
    auto at = static_cast<size_t>(std::ranges::mismatch(text, before).in1 - text.begin());
    way.resize(at + 1);
    for (; at < text.size(); ++at) {
      const auto byte = static_cast<uint8_t>(text[at]);
      const auto next = static_cast<int32_t>(accepts.size());
      transitions.push_back({.from = way[at], .low = byte, .high = byte, .to = next});
      way.push_back(next);
      accepts.push_back(false);
    }
    accepts[static_cast<size_t>(way.back())] = true;
    before = text;
  }
  return automaton(transitions, accepts);
}

}  // namespace folio::infer::forms
