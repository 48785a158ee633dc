// A language of byte strings, as rules that call each other: a recursive transition network (Woods 1970). A rule is an
// automaton whose edges read a byte, call a rule, or read nothing. Grammars, regular expressions and JSON schemas are
// all built of the pieces here; form.h says which bytes may come next.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/work_budget.h"

namespace folio::infer::forms {

struct GrammarLimits {
  size_t max_states = 200'000;  ///< of a grammar
  size_t max_edges = 600'000;
  /// A walk from a state reads at most so many bytes: those of the longest token. Long repetitions look the same that
  /// far from their end, and share what is known of them.
  size_t longest_token = 128;
};

class Grammar {
 public:
  using State = int32_t;
  using Rule = int32_t;

  struct Edge {
    enum class Kind : uint8_t { Bytes, Empty, Call };
    Kind kind;
    uint8_t low, high;  ///< of Bytes: those from low to high
    Rule rule;          ///< of Call: where it returns, the edge ends
    State to;
  };

  /// A part of a rule: what is read between two states. Nothing enters `begin` from within, or leaves `end`.
  struct Part {
    State begin;
    State end;
  };
  using Build = std::function<Part()>;
  /// Of an automaton with states of its own, from 0 on.
  struct Transition {
    int32_t from;
    uint8_t low, high;
    int32_t to;
    Rule rule = -1;  ///< if there is one, it is called, and no byte read
  };

  /// What is built here and finish() cost a step for each state and each edge that is touched.
  explicit Grammar(const GrammarLimits& limits = {}, core::WorkBudget budget = core::WorkBudget());

  [[nodiscard]] const core::WorkBudget& budget() const { return budget_; }

  [[nodiscard]] Part empty();
  [[nodiscard]] Part bytes(uint8_t low, uint8_t high);
  /// One code point of these ranges, in UTF-8; surrogates are left out.
  [[nodiscard]] Part characters(std::span<const std::pair<uint32_t, uint32_t>> ranges);
  [[nodiscard]] Part text(std::string_view text);
  [[nodiscard]] Part call(Rule rule);
  [[nodiscard]] Part sequence(std::span<const Part> parts);
  /// Without any part nothing can be read: a text that comes here can't go on.
  [[nodiscard]] Part choice(std::span<const Part> parts);
  [[nodiscard]] Part optional(Part part);
  /// `build` makes the part anew each time; the same each time but the first, in which it may define rules that it
  /// calls. `most` < 0: without end.
  [[nodiscard]] Part repeat(const Build& build, int64_t least, int64_t most);

  /// Begins in state 0 and may end in the `accepting`.
  [[nodiscard]] Part automaton(size_t n_states, std::span<const Transition> transitions,
                               std::span<const int32_t> accepting);

  /// For a rule that is defined later, so that rules may call each other. `name` is for messages.
  [[nodiscard]] Rule declare(std::string_view name = {});
  void define(Rule rule, Part part);
  /// The rule that the whole text is. What can't be part of a text is taken away: the bytes that are not `available`,
  /// and what leads nowhere. Throws core::Error if a rule that is called is not defined or begins with itself, or if no
  /// text is left; then it names the first byte that is not available, if that is why.
  void finish(Rule start, const std::bitset<256>& available = std::bitset<256>().set());

  // What form.h reads.
  [[nodiscard]] Rule start() const { return start_; }
  [[nodiscard]] size_t n_states() const { return states_.size(); }
  [[nodiscard]] std::span<const Edge> edges(State state) const { return states_[static_cast<size_t>(state)].edges; }
  [[nodiscard]] Part part(Rule rule) const { return rules_[static_cast<size_t>(rule)]; }
  /// A state from which the same can be read, as far as the longest token goes.
  [[nodiscard]] State alike(State state) const { return states_[static_cast<size_t>(state)].alike; }
  [[nodiscard]] bool ends_rule(State state) const { return states_[static_cast<size_t>(state)].ends_rule; }
  /// Whether nothing but the end of its rule comes after it: a call that returns here need not.
  [[nodiscard]] bool is_last(State state) const { return states_[static_cast<size_t>(state)].is_last; }

 private:
  struct Node {
    std::vector<Edge> edges;
    State alike;
    bool ends_rule = false;
    bool is_last = false;
  };
  /// Stands for copies of a repeated part that are far from the least and from the most.
  struct Loop {
    size_t first;  ///< of its states
    Part one;
  };
  /// Its states, [first, first + n), look like those of a loop that can't be left, or of one that can.
  struct Copy {
    size_t first, n;
    std::optional<size_t> closed;  ///< if it is far from the least: which of `closed_loops_`
    size_t open;                   ///< the first state of the loop that can be left
  };

  [[nodiscard]] State add_state();
  void add_edge(State from, const Edge& edge);
  void join(State from, State to);
  void share_copies(const std::vector<bool>& ends_unread);
  [[nodiscard]] std::string name_of(Rule rule) const;
  [[nodiscard]] std::vector<bool> ending(bool by_reading) const;
  void trim(const std::bitset<256>& available);
  [[nodiscard]] int missing_byte(const std::bitset<256>& available) const;
  void refuse_left_recursion(const std::vector<bool>& ends_unread) const;

  GrammarLimits limits_;
  core::WorkBudget budget_;
  std::vector<Node> states_;
  size_t n_edges_ = 0;
  std::vector<Part> rules_;  ///< begin is -1 where it is not defined
  std::vector<std::string> names_;
  std::vector<Loop> closed_loops_;
  std::vector<Copy> copies_;
  Rule start_ = -1;
};

}  // namespace folio::infer::forms
