#include "infer/forms/character_automaton.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostStates = 200'000;   // also limits the transitions explored to compile one expression
constexpr size_t kMostEdges = 1'000'000;  // maximum number of edges of a product

}  // namespace

int32_t CharacterAutomaton::add_state() {
  core::require(edges_.size() < kMostStates, "needs more than {} states when combined with the other constraints",
                kMostStates);
  budget_.spend(1);
  edges_.emplace_back();
  accepts_.push_back(false);
  return static_cast<int32_t>(edges_.size() - 1);
}

CharacterAutomaton::CharacterAutomaton(int64_t least, int64_t most, core::WorkBudget budget)
    : CharacterAutomaton(std::move(budget)) {
  int32_t state = add_state();
  for (int64_t n = 0;; ++n) {
    accepts_[static_cast<size_t>(state)] = n >= least;
    if (n == std::max(least, most)) break;
    const int32_t next = add_state();
    edges_[static_cast<size_t>(state)].push_back({0, kLastCodePoint, next});
    state = next;
  }
  if (most < 0) edges_[static_cast<size_t>(state)].push_back({0, kLastCodePoint, state});
}

CharacterAutomaton::CharacterAutomaton(std::span<const std::string> texts, core::WorkBudget budget)
    : CharacterAutomaton(std::move(budget)) {
  std::vector<std::map<uint32_t, int32_t>> children(1);
  (void)add_state();
  for (const std::string& text : texts) {
    budget_.spend(1 + text.size());
    int32_t state = 0;
    for (size_t at = 0; at < text.size();) {
      const core::Utf8Char c = core::decode_utf8(text, at);
      const auto [child, is_new] =
          children[static_cast<size_t>(state)].try_emplace(c.code_point, static_cast<int32_t>(children.size()));
      state = child->second;
      at += c.length;
      if (!is_new) continue;
      children.emplace_back();
      (void)add_state();
    }
    accepts_[static_cast<size_t>(state)] = true;
  }
  for (size_t i = 0; i < children.size(); ++i) {
    for (const auto& [c, to] : children[i]) edges_[i].push_back({c, c, to});
  }
}

// In state i, the first i characters equal those of `least`. In the last state, the number is greater than `least`, or
// perhaps equal if not `strictly`.
CharacterAutomaton CharacterAutomaton::at_least(std::string_view least, bool strictly, core::WorkBudget budget) {
  CharacterAutomaton all(std::move(budget));
  for (size_t i = 0; i < least.size() + 2; ++i) (void)all.add_state();
  const auto equal = static_cast<int32_t>(least.size());
  const int32_t greater = equal + 1;
  for (size_t i = 0; i < least.size(); ++i) {
    const auto c = static_cast<uint8_t>(least[i]);
    all.edges_[i].push_back({c, c, static_cast<int32_t>(i) + 1});
    if (c >= '0' && c < '9') all.edges_[i].push_back({c + 1U, '9', greater});
  }
  if (strictly) {
    all.edges_[least.size()] = {{'.', '.', equal}, {'0', '0', equal}, {'1', '9', greater}};
  } else {
    all.edges_[least.size()] = {{0, kLastCodePoint, greater}};
  }
  all.edges_.back() = {{0, kLastCodePoint, greater}};
  all.accepts_[least.size()] = !strictly;
  all.accepts_.back() = true;
  return all;
}

CharacterAutomaton CharacterAutomaton::multiples(uint32_t divisor, core::WorkBudget budget) {
  CharacterAutomaton all(std::move(budget));
  for (uint32_t rest = 0; rest < divisor; ++rest) {
    (void)all.add_state();
    for (uint32_t digit = 0; digit < 10; ++digit) {
      all.edges_[rest].push_back({'0' + digit, '0' + digit, static_cast<int32_t>((10 * rest + digit) % divisor)});
    }
  }
  all.accepts_[0] = true;
  return all;
}

// Compiles the expression to a nondeterministic automaton: a Grammar in which each character class is a call of an
// undefined rule. The subset construction then makes it deterministic.
CharacterAutomaton::CharacterAutomaton(const Syntax& syntax, core::WorkBudget budget)
    : CharacterAutomaton(std::move(budget)) {
  Grammar grammar({}, budget_);
  std::vector<CharacterRanges> classes;
  const Grammar::Part whole = forms::build(grammar, syntax, [&](std::span<const CharacterRange> ranges) {
    budget_.spend(ranges.size());
    classes.push_back(merged({ranges.begin(), ranges.end()}));
    return grammar.call(grammar.declare());
  });
  using Set = std::vector<Grammar::State>;
  size_t n_steps = 0;
  const auto step = [&] {
    core::require(++n_steps <= kMostStates, "the pattern is too large to combine with other constraints");
    budget_.spend(1);
  };
  std::map<Set, int32_t> numbers;
  std::vector<Set> order;
  const auto number_of = [&](const std::set<Grammar::State>& from) {
    std::vector<Grammar::State> todo(from.begin(), from.end());
    std::set<Grammar::State> all = from;
    while (!todo.empty()) {
      const Grammar::State state = todo.back();
      todo.pop_back();
      for (const Grammar::Edge& edge : grammar.edges(state)) {
        step();
        if (edge.kind == Grammar::Edge::Kind::Empty && all.insert(edge.to).second) todo.push_back(edge.to);
      }
    }
    std::erase_if(all, [&](Grammar::State state) {  // sets that differ only in such states accept the same strings
      return state != whole.end &&
             std::ranges::count(grammar.edges(state), Grammar::Edge::Kind::Call, &Grammar::Edge::kind) == 0;
    });
    const auto [found, is_new] = numbers.try_emplace(Set(all.begin(), all.end()), static_cast<int32_t>(order.size()));
    if (is_new) {
      order.push_back(found->first);
      accepts_[static_cast<size_t>(add_state())] = all.contains(whole.end);
    }
    return found->second;
  };
  (void)number_of({whole.begin});
  for (size_t i = 0; i < order.size(); ++i) {
    // Code points at which the set of reached states changes. Between two cuts, all code points reach the same set.
    std::set<uint32_t> cuts;
    std::vector<std::pair<const CharacterRanges*, Grammar::State>> ways;
    for (const Grammar::State state : order[i]) {
      for (const Grammar::Edge& edge : grammar.edges(state)) {
        if (edge.kind != Grammar::Edge::Kind::Call) continue;
        ways.emplace_back(&classes[static_cast<size_t>(edge.rule)], edge.to);
        budget_.spend(1 + ways.back().first->size());
        for (const auto& [low, high] : *ways.back().first) {
          cuts.insert(low);
          cuts.insert(high + 1);
        }
      }
    }
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      std::set<Grammar::State> reached;
      for (const auto& [ranges, to] : ways) {
        step();
        const auto next = std::ranges::upper_bound(*ranges, *cut, {}, &CharacterRange::first);
        if (next != ranges->begin() && *cut <= std::prev(next)->second) reached.insert(to);
      }
      if (reached.empty()) continue;
      const int32_t to = number_of(reached);
      edges_[i].push_back({*cut, *std::next(cut) - 1, to});
    }
  }
}

int32_t CharacterAutomaton::after(int32_t state, uint32_t character) const {
  const std::vector<Edge>& edges = edges_[static_cast<size_t>(state)];
  const auto at = std::ranges::lower_bound(edges, character, {}, &Edge::high);
  return at != edges.end() && at->low <= character ? at->to : -1;
}

bool CharacterAutomaton::accepts(std::string_view utf8) const {
  budget_.spend(1 + utf8.size());
  int32_t state = 0;
  for (size_t at = 0; at < utf8.size() && state >= 0;) {
    const core::Utf8Char c = core::decode_utf8(utf8, at);
    state = after(state, c.code_point);
    at += c.length;
  }
  return state >= 0 && accepts_[static_cast<size_t>(state)];
}

bool CharacterAutomaton::is_empty() const {  // all states are reachable, so it suffices that none accepts
  return std::ranges::none_of(accepts_, [](bool accepts) { return accepts; });
}

// Returns the intersection with `other`, or the difference if `negated`. Each state of the result is a pair: a state
// of this automaton, and a state of `other` or -1 if `other` has rejected the string.
CharacterAutomaton CharacterAutomaton::product(const CharacterAutomaton& other, bool negated) const {
  CharacterAutomaton both(budget_);
  std::map<std::pair<int32_t, int32_t>, int32_t> numbers;
  std::vector<std::pair<int32_t, int32_t>> order;
  const auto number_of = [&](int32_t a, int32_t b) {
    const auto [found, is_new] = numbers.try_emplace({a, b}, static_cast<int32_t>(order.size()));
    if (is_new) {
      order.emplace_back(a, b);
      const bool other_accepts = b >= 0 && other.accepts_[static_cast<size_t>(b)];
      both.accepts_[static_cast<size_t>(both.add_state())] =
          accepts_[static_cast<size_t>(a)] && other_accepts != negated;
    }
    return found->second;
  };
  (void)number_of(0, 0);
  size_t n_edges = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto [a, b] = order[i];
    for (const Edge& edge : edges_[static_cast<size_t>(a)]) {
      const auto add = [&](uint32_t low, uint32_t high, int32_t to) {
        if (low > high || (to < 0 && !negated)) return;
        core::require(++n_edges <= kMostEdges, "the pattern is too large to combine with other constraints");
        budget_.spend(1);
        const int32_t state = number_of(edge.to, to);
        both.edges_[i].push_back({low, high, state});
      };
      uint32_t low = edge.low;
      if (b >= 0) {
        const std::vector<Edge>& with_edges = other.edges_[static_cast<size_t>(b)];
        for (auto at = std::ranges::lower_bound(with_edges, low, {}, &Edge::high);
             at != with_edges.end() && at->low <= edge.high; ++at) {
          const Edge& with = *at;
          if (with.low > low) add(low, with.low - 1, -1);
          add(std::max(low, with.low), std::min(edge.high, with.high), with.to);
          low = std::min(edge.high, with.high) + 1;
        }
      }
      add(low, edge.high, -1);
    }
  }
  return both;
}

Grammar::Part CharacterAutomaton::build(Grammar& grammar, const CharacterPart& characters) const {
  std::map<CharacterRanges, Grammar::Rule> rules;
  std::vector<Grammar::Transition> transitions;
  for (size_t i = 0; i < edges_.size(); ++i) {
    std::map<int32_t, CharacterRanges> ways;
    budget_.spend(1 + edges_[i].size());
    for (const Edge& edge : edges_[i]) ways[edge.to].emplace_back(edge.low, edge.high);
    for (auto& [to, ranges] : ways) {
      const auto [found, is_new] = rules.try_emplace(merged(std::move(ranges)), -1);
      if (is_new) {
        found->second = grammar.declare();
        grammar.define(found->second, characters(found->first));
      }
      transitions.push_back({.from = static_cast<int32_t>(i), .low = 0, .high = 0, .to = to, .rule = found->second});
    }
  }
  return grammar.automaton(transitions, accepts_);
}

Grammar::Part CharacterAutomaton::build_bytes(Grammar& grammar) const {
  constexpr uint32_t kLastByte = 255;
  std::vector<Grammar::Transition> transitions;
  for (size_t i = 0; i < edges_.size(); ++i) {
    for (const auto& [low, high, to] : edges_[i]) {
      if (low > kLastByte) continue;
      transitions.push_back({.from = static_cast<int32_t>(i),
                             .low = static_cast<uint8_t>(low),
                             .high = static_cast<uint8_t>(std::min(high, kLastByte)),
                             .to = to});
    }
  }
  return grammar.automaton(transitions, accepts_);
}

}  // namespace folio::infer::forms
