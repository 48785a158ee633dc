// Adds finite automata to a Grammar as parts.
#include <algorithm>
#include <map>

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
  const std::vector<Spelling> all = utf8_spellings(ranges);
  budget_.spend(ranges.size() + all.size());
  return spellings(all);
}

Grammar::Part Grammar::spellings(std::span<const Spelling> all) {
  const State begin = add_state();
  const State end = add_state();
  using Rest = std::vector<Spelling>;  // all suffixes of spellings that lead from a state to `end`
  std::map<Rest, State> states{{{{}}, end}};
  const auto add = [&](State from, std::span<const Spelling> rest, auto&& self) -> void {
    for (size_t first = 0, next = 0; first < rest.size(); first = next) {
      Rest tails;
      for (; next < rest.size() && rest[next].front() == rest[first].front(); ++next) {
        tails.emplace_back(rest[next].begin() + 1, rest[next].end());
      }
      auto found = states.find(tails);
      if (found == states.end()) {
        const State made = add_state();
        self(made, tails, self);
        found = states.emplace(std::move(tails), made).first;
      }
      for (const auto& [low, high] : rest[first].front()) {
        add_edge(from, {Edge::Kind::Bytes, low, high, -1, found->second});
      }
    }
  };
  add(begin, all, add);
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
