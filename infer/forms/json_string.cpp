#include "infer/forms/json_string.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "infer/forms/json_value.h"

namespace folio::infer::forms {
namespace {

constexpr std::array<std::pair<uint32_t, char>, 8> kShortEscapes{
    {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

// Adds transitions that read any number in a range, written as `n_digits` hexadecimal digits, and lead to state `end`.
class HexDigits {
 public:
  HexDigits(std::vector<Grammar::Transition>& transitions, int32_t& n_states)
      : transitions_(transitions), n_states_(n_states) {}

  void add(uint32_t low, uint32_t high, int n_digits, int32_t from, int32_t end) {
    const uint32_t unit = 1U << (4U * static_cast<uint32_t>(n_digits - 1));
    for (uint32_t digit = low / unit; digit <= high / unit; ++digit) {
      const uint32_t below = digit == low / unit ? low % unit : 0;
      const uint32_t above = digit == high / unit ? high % unit : unit - 1;
      if (n_digits == 1) {
        digits(from, digit, high, end);
        return;
      }
      uint32_t last = digit;
      if (below == 0 && above == unit - 1) {  // all values of the lower digits are allowed
        while (last < high / unit && (last + 1 < high / unit || high % unit == unit - 1)) ++last;
      }
      digits(from, digit, last, state(below, above, n_digits - 1, end));
      digit = last;
    }
  }

 private:
  int32_t state(uint32_t low, uint32_t high, int n_digits, int32_t end) {
    const auto [found, is_new] = known_.try_emplace({low, high, n_digits, end}, n_states_);
    const int32_t state = found->second;
    if (is_new) {
      ++n_states_;
      add(low, high, n_digits, state, end);
    }
    return state;
  }

  void digits(int32_t from, uint32_t low, uint32_t high, int32_t to) {
    const auto add = [&](uint32_t first, uint32_t last, uint32_t base, uint32_t zero) {
      first = std::max(first, base);
      if (first > last) return;
      transitions_.push_back(
          {from, static_cast<uint8_t>(zero + first - base), static_cast<uint8_t>(zero + last - base), to});
    };
    add(low, std::min(high, 9U), 0, '0');
    add(low, high, 10, 'a');
    add(low, high, 10, 'A');
  }

  std::vector<Grammar::Transition>& transitions_;
  int32_t& n_states_;
  std::map<std::tuple<uint32_t, uint32_t, int, int32_t>, int32_t> known_;
};

const CharacterRanges kRaw{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}};

CharacterRanges intersection(std::span<const CharacterRange> ranges, const CharacterRanges& with) {
  CharacterRanges both;
  for (const auto& [low, high] : ranges) {
    for (const auto& [first, last] : with) {
      if (std::max(low, first) <= std::min(high, last)) both.emplace_back(std::max(low, first), std::min(high, last));
    }
  }
  return both;
}

// Transitions {from, low, high, to} that read a JSON string after its opening quote, as Python's json.dumps spells it.
constexpr int32_t kBegin = 0;
constexpr int32_t kDone = 1;
constexpr int32_t kCanonicalStates = 15;
constexpr std::array<Grammar::Transition, 37> kCanonical{
    {{0, 0x20, 0x21, 0},  {0, 0x23, 0x5B, 0},  {0, 0x5D, 0x7F, 0},  {0, '"', '"', 1},    {0, '\\', '\\', 2},
     {0, 0xC2, 0xDF, 7},  {0, 0xE0, 0xE0, 9},  {0, 0xE1, 0xEC, 8},  {0, 0xED, 0xED, 10}, {0, 0xEE, 0xEF, 8},
     {0, 0xF0, 0xF0, 11}, {0, 0xF1, 0xF3, 12}, {0, 0xF4, 0xF4, 13}, {2, '"', '"', 0},    {2, '\\', '\\', 0},
     {2, 'b', 'b', 0},    {2, 'f', 'f', 0},    {2, 'n', 'n', 0},    {2, 'r', 'r', 0},    {2, 't', 't', 0},
     {2, 'u', 'u', 3},    {3, '0', '0', 4},    {4, '0', '0', 5},    {5, '0', '0', 6},    {5, '1', '1', 14},
     {6, '0', '7', 0},    {6, 'b', 'b', 0},    {6, 'e', 'f', 0},    {14, '0', '9', 0},   {14, 'a', 'f', 0},
     {7, 0x80, 0xBF, 0},  {8, 0x80, 0xBF, 7},  {9, 0xA0, 0xBF, 7},  {10, 0x80, 0x9F, 7}, {11, 0x90, 0xBF, 8},
     {12, 0x80, 0xBF, 8}, {13, 0x80, 0x8F, 8}}};

}  // namespace

Grammar::Part json_characters(Grammar& grammar, std::span<const CharacterRange> ranges) {
  std::vector<Grammar::Part> ways;
  if (const CharacterRanges raw = intersection(ranges, kRaw); !raw.empty()) ways.push_back(grammar.characters(raw));
  // States: 0 expects the backslash, 1 the escape, 2 four hexadecimal digits; 3 accepts.
  std::vector<Grammar::Transition> transitions{{0, '\\', '\\', 1}, {1, 'u', 'u', 2}};
  int32_t n_states = 4;
  HexDigits hex(transitions, n_states);
  for (const auto& [low, high] : ranges) {
    for (const auto& [c, letter] : kShortEscapes) {
      const auto byte = static_cast<uint8_t>(letter);
      if (low <= c && c <= high) transitions.push_back({1, byte, byte, 3});
    }
  }
  grammar.budget().spend(1 + ranges.size());
  for (const auto& [low, high] : intersection(ranges, {{0, 0xD7FF}, {0xE000, 0xFFFF}})) hex.add(low, high, 4, 2, 3);
  // Adds surrogate pairs with the upper ten bits of c - 0x10000 in [first, last] and the lower ten in [low, high].
  const auto pair = [&](uint32_t first, uint32_t last, uint32_t low, uint32_t high) {
    const int32_t second = n_states;
    n_states += 3;
    hex.add(0xD800 + first, 0xD800 + last, 4, 2, second);
    transitions.push_back({second, '\\', '\\', second + 1});
    transitions.push_back({second + 1, 'u', 'u', second + 2});
    hex.add(0xDC00 + low, 0xDC00 + high, 4, second + 2, 3);
  };
  for (const auto& [low, high] : intersection(ranges, {{0x10000, kLastCodePoint}})) {
    const uint32_t first = (low - 0x10000) >> 10U;
    const uint32_t last = (high - 0x10000) >> 10U;
    const uint32_t below = (low - 0x10000) & 0x3FFU;
    const uint32_t above = (high - 0x10000) & 0x3FFU;
    if (first == last) {
      pair(first, first, below, above);
      continue;
    }
    const uint32_t from = below == 0 ? first : first + 1;
    const uint32_t to = above == 0x3FF ? last + 1 : last;  // end of the range, exclusive
    if (below != 0) pair(first, first, below, 0x3FF);
    if (from < to) pair(from, to - 1, 0, 0x3FF);
    if (above != 0x3FF) pair(last, last, 0, above);
  }
  ways.push_back(grammar.automaton(static_cast<size_t>(n_states), transitions, std::array<int32_t, 1>{3}));
  return grammar.choice(ways);
}

Grammar::Part json_key_characters(Grammar& grammar, std::span<const CharacterRange> ranges) {
  std::vector<Grammar::Part> ways;
  if (const CharacterRanges raw = intersection(ranges, kRaw); !raw.empty()) ways.push_back(grammar.characters(raw));
  for (const auto& [low, high] : intersection(ranges, {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})) {
    for (uint32_t c = low; c <= high; ++c) {
      const std::string written = json_quoted(std::string(1, static_cast<char>(c)));
      ways.push_back(grammar.text(std::string_view(written).substr(1, written.size() - 2)));
    }
  }
  return grammar.choice(ways);
}

Grammar::Part other_key(Grammar& grammar, std::span<const std::string> excluded) {
  std::vector<Grammar::Transition> transitions(kCanonical.begin(), kCanonical.end());
  // While a key is a prefix of an excluded one, the state is a node of a tree of the excluded keys' bytes. Nodes are
  // numbered after the states of kCanonical; each stores the state of kCanonical that its bytes lead to.
  struct Node {
    int32_t canonical;
    std::map<uint8_t, int32_t> children{};
  };
  std::vector<Node> nodes{{.canonical = kBegin}};
  const auto follow = [&](int32_t state, uint8_t byte) {
    for (const Grammar::Transition& t : kCanonical) {
      if (t.from == state && t.low <= byte && byte <= t.high) return t.to;
    }
    return int32_t{-1};
  };
  for (const std::string& key : excluded) {
    grammar.budget().spend(1 + key.size());
    size_t at = 0;
    for (const char c : json_quoted(key).substr(1)) {
      const auto byte = static_cast<uint8_t>(c);
      const auto [child, is_new] = nodes[at].children.try_emplace(byte, static_cast<int32_t>(nodes.size()));
      const auto next = static_cast<size_t>(child->second);
      const int32_t canonical = nodes[at].canonical;
      if (is_new) nodes.push_back({.canonical = follow(canonical, byte)});
      at = next;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto from = static_cast<int32_t>(i) + kCanonicalStates;
    for (const Grammar::Transition& t : kCanonical) {
      if (t.from != nodes[i].canonical) continue;
      int low = t.low;
      for (const auto& [byte, child] : nodes[i].children) {
        if (byte < t.low || byte > t.high) continue;
        if (low < byte) transitions.push_back({from, static_cast<uint8_t>(low), static_cast<uint8_t>(byte - 1), t.to});
        // At the end of an excluded key, the closing quote has no transition.
        if (t.to != kDone) transitions.push_back({from, byte, byte, child + kCanonicalStates});
        low = byte + 1;
      }
      if (low <= t.high) transitions.push_back({from, static_cast<uint8_t>(low), t.high, t.to});
    }
  }
  // Renumbers the states so that the tree's root becomes state 0, the state in which an automaton starts.
  for (Grammar::Transition& t : transitions) {
    const auto moved = [](int32_t state) {
      return state == kCanonicalStates ? 0 : state < kCanonicalStates ? state + 1 : state;
    };
    t.from = moved(t.from);
    t.to = moved(t.to);
  }
  const std::array parts = {grammar.text("\""),
                            grammar.automaton(nodes.size() + kCanonicalStates, transitions, std::array{kDone + 1})};
  return grammar.sequence(parts);
}

}  // namespace folio::infer::forms
