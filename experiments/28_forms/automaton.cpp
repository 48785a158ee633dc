#include "experiments/28_forms/automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "experiments/common/report.h"

namespace folio::experiments {
namespace {

using infer::forms::Form;
using State = Automaton::State;
using Arrow = Automaton::Arrow;
using Targets = std::array<int32_t, 256>;  // next state by byte; -1: byte not allowed

size_t first_byte(const Arrow& arrow) {
  if (!arrow.run.empty()) return static_cast<uint8_t>(arrow.run.front());
  size_t byte = 0;
  while (!arrow.bytes[byte]) ++byte;
  return byte;
}

State state_of(const Targets& targets, bool may_end) {
  std::map<int32_t, std::bitset<256>> bytes;
  for (size_t byte = 0; byte < targets.size(); ++byte) {
    if (targets[byte] >= 0) bytes[targets[byte]].set(byte);
  }
  State state{.may_end = may_end};
  for (const auto& [to, set] : bytes) state.arrows.push_back({.to = static_cast<size_t>(to), .bytes = set});
  std::ranges::sort(state.arrows, {}, first_byte);
  return state;
}

// Returns only the reachable states, numbered in order of discovery.
Automaton numbered(const std::vector<State>& states) {
  std::vector<size_t> order{0};
  std::map<size_t, size_t> numbers{{0, 0}};
  Automaton automaton;
  for (size_t i = 0; i < order.size(); ++i) {
    State state = states[order[i]];
    for (Arrow& arrow : state.arrows) {
      const auto [found, is_new] = numbers.try_emplace(arrow.to, order.size());
      if (is_new) order.push_back(arrow.to);
      arrow.to = found->second;
    }
    automaton.states.push_back(std::move(state));
  }
  return automaton;
}

// Merges equivalent states by partition refinement (Moore 1956): starts with two classes, accepting states and others,
// and splits classes whose states have transitions to different classes until nothing changes.
Automaton smallest(const std::vector<Targets>& targets, const std::vector<bool>& may_end) {
  std::vector<int32_t> classes(may_end.begin(), may_end.end());
  for (size_t n_classes = 0;;) {
    std::map<std::pair<int32_t, Targets>, int32_t> found;
    std::vector<int32_t> next;
    for (size_t s = 0; s < targets.size(); ++s) {
      Targets of = targets[s];
      for (int32_t& to : of) to = to < 0 ? -1 : classes[static_cast<size_t>(to)];
      next.push_back(found.try_emplace({classes[s], of}, static_cast<int32_t>(found.size())).first->second);
    }
    classes = std::move(next);
    if (found.size() == n_classes) break;
    n_classes = found.size();
  }
  std::vector<State> states(targets.size());
  for (size_t s = 0; s < targets.size(); ++s) {
    Targets of = targets[s];
    for (int32_t& to : of) to = to < 0 ? -1 : classes[static_cast<size_t>(to)];
    states[static_cast<size_t>(classes[s])] = state_of(of, may_end[s]);
  }
  return numbered(states);  // class 0, where numbered() starts, contains the start state
}

// Finds an arrow from state s to a state that differs from s only in the target of the arrow with the same index.
// Returns the arrow's index, or nullopt.
std::optional<size_t> arrow_to_alike(const Automaton& automaton, size_t s) {
  const State& state = automaton.states[s];
  for (size_t a = 0; a < state.arrows.size(); ++a) {
    if (state.arrows[a].to == s) continue;
    const State& other = automaton.states[state.arrows[a].to];
    if (other.may_end != state.may_end || other.arrows.size() != state.arrows.size()) continue;
    bool alike = other.arrows[a].bytes == state.arrows[a].bytes && state.arrows.size() > 1;
    for (size_t b = 0; alike && b < state.arrows.size(); ++b) alike = b == a || other.arrows[b] == state.arrows[b];
    if (alike) return a;
  }
  return {};
}

std::string text_of(const Arrow& arrow) {
  if (!arrow.run.empty()) return arrow.run;
  return arrow.bytes.count() == 1 ? std::string(1, static_cast<char>(first_byte(arrow))) : "";
}

}  // namespace

Automaton Automaton::of(Form& form) {
  std::vector<Form::Place> places{form.start()};
  std::map<Form::Place, int32_t> numbers{{form.start(), 0}};
  std::vector<Targets> targets;
  std::vector<bool> may_end;
  for (size_t i = 0; i < places.size(); ++i) {
    core::require(places.size() <= 1000, "the form has more than 1,000 states");
    Targets to{};
    for (size_t byte = 0; byte < to.size(); ++byte) {
      const Form::Place place = form.after(places[i], static_cast<uint8_t>(byte));
      to[byte] = -1;
      if (place == Form::kDead) continue;
      const auto [found, is_new] = numbers.try_emplace(place, static_cast<int32_t>(places.size()));
      if (is_new) places.push_back(place);
      to[byte] = found->second;
    }
    targets.push_back(to);
    may_end.push_back(form.may_end(places[i]));
  }
  return smallest(targets, may_end);
}

Automaton Automaton::shortened() const {
  Automaton it = *this;
  for (size_t s = 0; s < it.states.size(); ++s) {
    size_t n = 1;
    std::optional<size_t> on = arrow_to_alike(it, s);
    if (!on) continue;
    size_t last = s;
    while (const auto next = arrow_to_alike(it, last)) {
      if (next != on) break;
      last = it.states[last].arrows[*next].to;
      ++n;
    }
    Arrow within = it.states[s].arrows[*on];
    within.to = s;
    State joined{.arrows = it.states[last].arrows, .may_end = it.states[s].may_end, .n_alike = n};
    joined.arrows.push_back(within);
    it.states[s] = std::move(joined);
  }
  it = numbered(it.states);
  std::vector<size_t> arrows_into(it.states.size(), 0);
  for (const State& state : it.states) {
    for (const Arrow& arrow : state.arrows) ++arrows_into[arrow.to];
  }
  for (State& state : it.states) {
    for (Arrow& arrow : state.arrows) {
      for (std::string text = text_of(arrow); !text.empty();) {
        const State& next = it.states[arrow.to];
        if (arrows_into[arrow.to] != 1 || next.may_end || next.arrows.size() != 1) break;
        const std::string more = text_of(next.arrows[0]);
        if (more.empty()) break;
        text += more;
        arrow = {.to = next.arrows[0].to, .bytes = {}, .run = text};
      }
    }
  }
  return numbered(it.states);
}

std::string shown(const std::bitset<256>& bytes) {
  std::string out;
  for (size_t low = 0; low < 256; ++low) {
    if (!bytes[low]) continue;
    size_t high = low;
    while (high < 255 && bytes[high + 1]) ++high;
    const auto name = [](size_t byte) { return visible(std::string(1, static_cast<char>(byte))); };
    if (!out.empty()) out += " ";
    if (high - low < 2) {
      out += name(low);
      if (high > low) out += " " + name(high);
    } else {
      out += name(low) + "–" + name(high);
    }
    low = high;
  }
  return out;
}

}  // namespace folio::experiments
