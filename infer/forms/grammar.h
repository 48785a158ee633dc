// A language of byte strings, as rules that call each other: a recursive transition network (Woods 1970). A rule is an
// automaton whose edges read a byte, call a rule or read nothing. Regular expressions, GBNF grammars and JSON schemas
// are all compiled to it; form.h computes which bytes may come next.
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

/// A set of byte strings of the same length: for each position, the inclusive ranges of byte values.
using Spelling = std::vector<std::vector<std::pair<uint8_t, uint8_t>>>;

struct GrammarLimits {
  size_t max_states = 200'000;  ///< maximum number of states in one grammar
  /// Length of the vocabulary's longest token in bytes. A token mask depends only on states within this distance, so
  /// copies of a repeated part share masks if they are farther than this below the next bound of the repetition count.
  size_t longest_token = 128;
};

class Grammar {
 public:
  using State = int32_t;
  using Rule = int32_t;

  struct Edge {
    enum class Kind : uint8_t { Bytes, Empty, Call };
    Kind kind;
    uint8_t low, high;  ///< Bytes: the inclusive range that is read
    Rule rule;          ///< Call: the rule to match before the edge reaches `to`
    State to;
  };

  /// A fragment of a rule: it matches the bytes read on a path from `begin` to `end`. None of its edges enters `begin`
  /// or leaves `end`.
  struct Part {
    State begin;
    State end;
  };
  using Build = std::function<Part()>;
  /// A transition of an automaton with states numbered from 0; see automaton().
  struct Transition {
    int32_t from;
    uint8_t low, high;
    int32_t to;
    Rule rule = -1;  ///< if >= 0, the transition calls this rule instead of reading a byte
  };

  /// Building parts and finish() spend about one step of `budget` per state and edge.
  explicit Grammar(const GrammarLimits& limits = {}, core::WorkBudget budget = core::WorkBudget());

  [[nodiscard]] const core::WorkBudget& budget() const { return budget_; }

  [[nodiscard]] Part empty();
  [[nodiscard]] Part bytes(uint8_t low, uint8_t high);
  /// Returns the part for one code point of these ranges, encoded in UTF-8. Surrogates are excluded.
  [[nodiscard]] Part characters(std::span<const std::pair<uint32_t, uint32_t>> ranges);
  /// Returns the part for the strings of `all`, none of which may be a prefix of another. Consecutive spellings that
  /// start with the same ranges share states, as do all spellings that end with the same ranges.
  [[nodiscard]] Part spellings(std::span<const Spelling> all);
  [[nodiscard]] Part text(std::string_view text);
  /// Returns the part for any of `texts`, as a prefix tree, so that thousands of strings aren't matched in parallel.
  [[nodiscard]] Part texts(std::vector<std::string> texts);
  [[nodiscard]] Part call(Rule rule);
  [[nodiscard]] Part sequence(std::span<const Part> parts);
  /// Returns the part for any one of `parts`. Without parts it matches nothing, so no valid output can reach it.
  [[nodiscard]] Part choice(std::span<const Part> parts);
  [[nodiscard]] Part optional(Part part);
  /// Returns the part for `least` to `most` repetitions; `most` < 0: no limit. `build` is called for each copy and must
  /// build the same part every time, except that its first call may define rules that all copies call.
  [[nodiscard]] Part repeat(const Build& build, int64_t least, int64_t most);

  /// Returns the part for an automaton that starts in state 0 and may end in any state i with accepts[i].
  [[nodiscard]] Part automaton(std::span<const Transition> transitions, const std::vector<bool>& accepts);

  /// Declares a rule to be defined later, so that rules can call each other. Error messages contain `name`.
  [[nodiscard]] Rule declare(std::string_view name = {});
  void define(Rule rule, Part part);
  /// Sets the rule that matches the whole output, and removes bytes not in `available` and states from which no output
  /// can end. Throws core::Error if a called rule is undefined or left-recursive, or if no output is left; the error
  /// names the first missing byte if that is the cause.
  void finish(Rule start, const std::bitset<256>& available = std::bitset<256>().set());

  // Queries used by Form (form.h).
  [[nodiscard]] Rule start() const { return start_; }
  [[nodiscard]] size_t n_states() const { return states_.size(); }
  [[nodiscard]] std::span<const Edge> edges(State state) const { return states_[static_cast<size_t>(state)].edges; }
  [[nodiscard]] Part part(Rule rule) const { return rules_[static_cast<size_t>(rule)]; }
  /// Returns the state whose token mask `state` shares: a loop's state if `state` is in a Copy; otherwise itself.
  [[nodiscard]] State alike(State state) const { return states_[static_cast<size_t>(state)].alike; }
  [[nodiscard]] bool ends_rule(State state) const { return states_[static_cast<size_t>(state)].ends_rule; }
  /// Returns true if only the end of the rule can follow `state`, so that a call needn't return there (tail call).
  [[nodiscard]] bool is_last(State state) const { return states_[static_cast<size_t>(state)].is_last; }

 private:
  struct Node {
    std::vector<Edge> edges;
    State alike;
    bool ends_rule = false;
    bool is_last = false;
  };
  /// A loop over one copy of a repeated part. Copies that are far below the next bound (minimum or maximum) of the
  /// repetition count share the loop's token masks.
  struct Loop {
    size_t first;  ///< first state of the loop
    Part one;
  };
  /// A copy of a repeated part: states [first, first + n). State first + i allows the same tokens as state i of a Loop.
  struct Copy {
    size_t first, n;
    std::optional<size_t> closed;  ///< index in closed_loops_, for copies far below `least` repetitions
    size_t open;                   ///< first state of the loop with an exit
  };

  [[nodiscard]] State add_state();
  void add_edge(State from, const Edge& edge);
  /// Returns the part with only this edge, between two new states.
  [[nodiscard]] Part edge_part(Edge edge);
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
  std::vector<Part> rules_;  ///< `begin` is -1 until the rule is defined
  std::vector<std::string> names_;
  std::vector<Loop> closed_loops_;
  std::vector<Copy> copies_;
  Rule start_ = -1;
};

}  // namespace folio::infer::forms
