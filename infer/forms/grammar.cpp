#include "infer/forms/grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMaxEdges = 600'000;  // maximum number of edges in one grammar

}  // namespace

Grammar::Grammar(const GrammarLimits& limits, core::WorkBudget budget) : limits_(limits), budget_(std::move(budget)) {}

Grammar::State Grammar::add_state() {
  core::require(states_.size() < limits_.max_states,
                "needs more than {} states; use fewer repetitions or smaller bounds", limits_.max_states);
  budget_.spend(1);
  const auto state = static_cast<State>(states_.size());
  states_.push_back({.edges = {}, .alike = state});
  return state;
}

void Grammar::add_edge(State from, const Edge& edge) {
  core::require(n_edges_ < kMaxEdges,
                "needs more than {} edges between states; use fewer repetitions or smaller character classes",
                kMaxEdges);
  budget_.spend(1);
  ++n_edges_;
  states_[static_cast<size_t>(from)].edges.push_back(edge);
}

void Grammar::join(State from, State to) { add_edge(from, {Edge::Kind::Empty, 0, 0, -1, to}); }

Grammar::Part Grammar::edge_part(Edge edge) {
  const State begin = add_state();
  edge.to = add_state();
  add_edge(begin, edge);
  return {.begin = begin, .end = edge.to};
}

Grammar::Part Grammar::empty() { return edge_part({Edge::Kind::Empty, 0, 0, -1, -1}); }

Grammar::Part Grammar::bytes(uint8_t low, uint8_t high) { return edge_part({Edge::Kind::Bytes, low, high, -1, -1}); }

Grammar::Part Grammar::call(Rule rule) { return edge_part({Edge::Kind::Call, 0, 0, rule, -1}); }

Grammar::Part Grammar::text(std::string_view text) {
  if (text.empty()) return empty();
  const State begin = add_state();
  State end = begin;
  for (const char c : text) {
    const State next = add_state();
    const auto byte = static_cast<uint8_t>(c);
    add_edge(end, {Edge::Kind::Bytes, byte, byte, -1, next});
    end = next;
  }
  return {.begin = begin, .end = end};
}

Grammar::Part Grammar::sequence(std::span<const Part> parts) {
  if (parts.empty()) return empty();
  for (size_t i = 1; i < parts.size(); ++i) join(parts[i - 1].end, parts[i].begin);
  return {.begin = parts.front().begin, .end = parts.back().end};
}

Grammar::Part Grammar::choice(std::span<const Part> parts) {
  const State begin = add_state();
  const State end = add_state();
  for (const Part& part : parts) {
    join(begin, part.begin);
    join(part.end, end);
  }
  return {.begin = begin, .end = end};
}

Grammar::Part Grammar::optional(Part part) {
  const Part one = choice(std::span(&part, 1));
  join(one.begin, one.end);
  return one;
}

Grammar::Part Grammar::repeat(const Build& build, int64_t least, int64_t most) {
  core::require(least >= 0 && (most < 0 || least <= most), "invalid repetition count: {} to {}", least, most);
  const State begin = add_state();
  const State end = add_state();
  // Builds a loop over one copy of the part, with an exit if `ends`. Copies that are more than `far` repetitions below
  // the next bound, `least` or `most`, share the loop's token masks.
  const auto far = static_cast<int64_t>(limits_.longest_token) + 1;
  const auto loop = [&](bool ends) {
    const size_t first = states_.size();
    const Part one = build();
    join(one.end, one.begin);
    if (ends) join(one.end, end);
    return Loop{.first = first, .one = one};
  };
  // The first call of build() can also add states of new rules, which belong to no copy. So its part is discarded.
  if (std::max(least, most) > far) (void)build();
  std::optional<size_t> closed;
  size_t open = 0;
  if (least > far) {
    closed_loops_.push_back(loop(false));  // loop() adds the loops nested in the part first
    closed = closed_loops_.size() - 1;
  }
  if (std::max(least, most) > far) open = loop(true).first;
  State at = begin;
  if (least == 0) join(at, end);
  for (int64_t i = 1; i <= (most < 0 ? std::max<int64_t>(least, 1) : most); ++i) {
    const size_t first = states_.size();
    const Part one = build();
    join(at, one.begin);
    if (i >= least) join(one.end, end);
    if (most < 0 && i >= least) join(one.end, one.begin);
    // [first, states_.size()) includes the copy's end, at which the next copy begins.
    if (i < least - far) {
      copies_.push_back({.first = first, .n = states_.size() - first, .closed = closed, .open = open});
    } else if (i >= least && most >= 0 && i < most - far) {
      copies_.push_back({.first = first, .n = states_.size() - first, .closed = {}, .open = open});
    }
    at = one.end;
  }
  return {.begin = begin, .end = end};
}

Grammar::Rule Grammar::declare(std::string_view name) {
  rules_.push_back({.begin = -1, .end = -1});
  names_.emplace_back(name);
  return static_cast<Rule>(rules_.size() - 1);
}

void Grammar::define(Rule rule, Part part) { rules_[static_cast<size_t>(rule)] = part; }

std::string Grammar::name_of(Rule rule) const {
  const std::string& name = names_[static_cast<size_t>(rule)];
  return name.empty() ? "a rule" : fmt::format("the rule {}", core::printable(name));
}

// Sets Node::alike of each state of a copy to the corresponding state of a loop. Copies far below the minimum use the
// loop without an exit, unless they may match the empty string. All other copies use the loop with an exit. Loops are
// built before the copies that use them, so one pass also resolves nested copies.
void Grammar::share_copies(const std::vector<bool>& ends_unread) {
  for (const Copy& copy : copies_) {
    size_t same = copy.open;
    if (copy.closed) {
      const Loop& loop = closed_loops_[*copy.closed];
      if (!ends_unread[static_cast<size_t>(loop.one.begin)]) same = loop.first;
    }
    for (size_t i = 0; i < copy.n; ++i) states_[copy.first + i].alike = static_cast<State>(same + i);
  }
  for (Node& node : states_) node.alike = states_[static_cast<size_t>(node.alike)].alike;
}

void Grammar::finish(Rule start, const std::bitset<256>& available) {
  start_ = start;
  constexpr size_t kPasses = 8;  // finish() passes this many times over all states and edges
  budget_.spend(kPasses * (states_.size() + n_edges_) / 4);
  for (const Node& node : states_) {
    for (const Edge& edge : node.edges) {
      core::require(edge.kind != Edge::Kind::Call || part(edge.rule).begin >= 0, "{} is not defined",
                    [&] { return name_of(edge.rule); });
    }
  }
  for (const Part& part : rules_) {
    if (part.end >= 0) states_[static_cast<size_t>(part.end)].ends_rule = true;
  }
  const std::vector<bool> ends_unread = ending(false);
  refuse_left_recursion(ends_unread);
  share_copies(ends_unread);
  const auto begin = static_cast<size_t>(part(start).begin);
  core::require(ending(true)[begin], "no output can match it");
  const int missing = missing_byte(available);
  trim(available);
  core::require(ending(true)[begin], "the model's vocabulary cannot produce it: no token contains the byte {:#04x}{}",
                missing, missing > 0x20 && missing < 0x7F ? fmt::format(", \"{}\"", static_cast<char>(missing)) : "");
  const std::vector<bool> lives = ending(true);
  for (size_t s = 0; s < states_.size(); ++s) {
    std::erase_if(states_[s].edges, [&](const Edge& edge) {
      const bool calls_dead = edge.kind == Edge::Kind::Call && !lives[static_cast<size_t>(part(edge.rule).begin)];
      return calls_dead || !lives[static_cast<size_t>(edge.to)];
    });
  }
  for (size_t s = 0; s < states_.size(); ++s) {
    size_t last = s;
    for (int i = 0; i < 16 && states_[last].edges.size() == 1 && states_[last].edges[0].kind == Edge::Kind::Empty;
         ++i) {
      last = static_cast<size_t>(states_[last].edges[0].to);
    }
    states_[s].is_last = states_[last].ends_rule;
  }
}

// Returns, for each state, true if it can reach the end of its rule, or of its loop in closed_loops_. If `by_reading`
// is false, paths that read a byte are ignored.
std::vector<bool> Grammar::ending(bool by_reading) const {
  const size_t n = states_.size();
  std::vector<std::vector<std::pair<State, Rule>>> back(n);                  // incoming: (source, called rule or -1)
  std::vector<std::vector<std::pair<State, State>>> waiting(rules_.size());  // per rule: pending calls (from, to)
  std::vector<Rule> rule_of(n, -1);
  for (size_t r = 0; r < rules_.size(); ++r) {
    if (rules_[r].begin >= 0) rule_of[static_cast<size_t>(rules_[r].begin)] = static_cast<Rule>(r);
  }
  for (size_t s = 0; s < n; ++s) {
    for (const Edge& edge : states_[s].edges) {
      if (edge.kind == Edge::Kind::Bytes && !by_reading) continue;
      back[static_cast<size_t>(edge.to)].emplace_back(static_cast<State>(s),
                                                      edge.kind == Edge::Kind::Call ? edge.rule : -1);
    }
  }
  std::vector<bool> lives(n);
  std::vector<State> todo;
  const auto live = [&](State state) {
    if (lives[static_cast<size_t>(state)]) return;
    lives[static_cast<size_t>(state)] = true;
    todo.push_back(state);
  };
  for (size_t s = 0; s < n; ++s) {
    if (states_[s].ends_rule) live(static_cast<State>(s));
  }
  for (const Loop& loop : closed_loops_) live(loop.one.end);
  while (!todo.empty()) {
    const State state = todo.back();
    todo.pop_back();
    for (const auto& [from, called] : back[static_cast<size_t>(state)]) {
      if (called >= 0 && !lives[static_cast<size_t>(part(called).begin)]) {
        waiting[static_cast<size_t>(called)].emplace_back(from, state);
      } else {
        live(from);
      }
    }
    const Rule rule = rule_of[static_cast<size_t>(state)];
    if (rule < 0) continue;
    for (const auto& [from, to] : std::exchange(waiting[static_cast<size_t>(rule)], {})) live(from);
  }
  return lives;
}

// Removes bytes that are not in `available` from all edges.
void Grammar::trim(const std::bitset<256>& available) {
  if (available.all()) return;
  for (Node& node : states_) {
    std::vector<Edge> kept;
    for (const Edge& edge : node.edges) {
      if (edge.kind != Edge::Kind::Bytes) {
        kept.push_back(edge);
        continue;
      }
      budget_.spend(1 + (edge.high - edge.low) / size_t{16});
      for (int byte = edge.low; byte <= edge.high; ++byte) {
        if (!available[static_cast<size_t>(byte)]) continue;
        Edge part = edge;
        part.low = static_cast<uint8_t>(byte);
        while (byte < edge.high && available[static_cast<size_t>(byte) + 1]) ++byte;
        part.high = static_cast<uint8_t>(byte);
        kept.push_back(part);
      }
    }
    node.edges = std::move(kept);
  }
}

// Returns the lowest byte of a reachable edge that reads no byte in `available`, for the error message; 0 if none does.
int Grammar::missing_byte(const std::bitset<256>& available) const {
  std::vector<bool> seen(states_.size());
  std::vector<State> way{part(start_).begin};
  seen[static_cast<size_t>(way[0])] = true;
  for (size_t i = 0; i < way.size(); ++i) {
    for (const Edge& edge : edges(way[i])) {
      State to = edge.kind == Edge::Kind::Call ? part(edge.rule).begin : edge.to;
      if (edge.kind == Edge::Kind::Bytes) {
        int byte = edge.low;
        while (byte <= edge.high && !available[static_cast<size_t>(byte)]) ++byte;
        if (byte > edge.high) return edge.low;
      }
      for (int twice = edge.kind == Edge::Kind::Call ? 2 : 1; twice > 0; --twice, to = edge.to) {
        if (seen[static_cast<size_t>(to)]) continue;
        seen[static_cast<size_t>(to)] = true;
        way.push_back(to);
      }
    }
  }
  return 0;
}

// Throws core::Error if a rule can call itself without reading a byte first: parsing it would never end.
void Grammar::refuse_left_recursion(const std::vector<bool>& ends_unread) const {
  const size_t n = rules_.size();
  std::vector<bool> is_seen(states_.size());
  std::vector<std::vector<Rule>> calls(n);  // the rules that each rule can call before it reads a byte
  for (size_t r = 0; r < n; ++r) {
    std::vector<State> seen;
    const auto see = [&](State state) {
      if (!is_seen[static_cast<size_t>(state)]) seen.push_back(state);
      is_seen[static_cast<size_t>(state)] = true;
    };
    if (rules_[r].begin >= 0) see(rules_[r].begin);
    for (size_t i = 0; i < seen.size(); ++i) {
      for (const Edge& edge : edges(seen[i])) {
        if (edge.kind == Edge::Kind::Call) calls[r].push_back(edge.rule);
        if (edge.kind == Edge::Kind::Empty ||
            (edge.kind == Edge::Kind::Call && ends_unread[static_cast<size_t>(part(edge.rule).begin)])) {
          see(edge.to);
        }
      }
    }
  }
  std::vector<uint8_t> color(n);  // depth-first search: 0 not visited, 1 on the current path, 2 done
  std::vector<std::pair<size_t, size_t>> way;
  for (size_t r = 0; r < n; ++r) {
    if (color[r] != 0) continue;
    way.emplace_back(r, 0);
    color[r] = 1;
    while (!way.empty()) {
      auto& [rule, next] = way.back();
      if (next == calls[rule].size()) {
        color[rule] = 2;
        way.pop_back();
        continue;
      }
      const auto called = static_cast<size_t>(calls[rule][next++]);
      core::require(color[called] != 1, "{} is left-recursive, which is not supported; use a repetition",
                    [&] { return name_of(static_cast<Rule>(called)); });
      if (color[called] == 0) {
        color[called] = 1;
        way.emplace_back(called, 0);
      }
    }
  }
}

}  // namespace folio::infer::forms
