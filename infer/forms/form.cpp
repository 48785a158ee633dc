#include "infer/forms/form.h"

#include <algorithm>
#include <array>
#include <limits>

namespace folio::infer::forms {
namespace {

constexpr size_t kMostWays = 4096;        // maximum number of simultaneous parses of one output
constexpr size_t kMostTokenBytes = 4096;  // maximum length of a token: Form::walk() recurses once per byte
constexpr size_t kTableBytes = 32;        // estimated overhead of a hash table entry in bytes

uint64_t key_of(int32_t first, int32_t second) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32U) | static_cast<uint32_t>(second);
}

}  // namespace

TokenTree::TokenTree(const data::Tokenizer& tokenizer) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.token_bytes(id).empty()) tokens_.push_back(id);
  }
  std::ranges::stable_sort(tokens_, {}, [&](int32_t id) -> std::string_view { return tokenizer.token_bytes(id); });
  // Since tokens are sorted, a node is created at the first token that passes through it and closed after the last.
  std::vector<uint32_t> way;
  std::string_view before;
  const auto leave = [&](size_t depth, uint32_t rank) {
    while (way.size() > depth) {
      Node& node = nodes_[way.back()];
      node.last = rank;
      node.next = static_cast<uint32_t>(nodes_.size());
      way.pop_back();
      if (!way.empty()) {
        Node& above = nodes_[way.back()];
        above.bytes_below |= node.bytes_below;
        above.bytes_below.set(node.byte);
        above.height = std::max(above.height, node.height + 1);
      }
    }
  };
  for (uint32_t rank = 0; rank < tokens_.size(); ++rank) {
    const std::string_view bytes = tokenizer.token_bytes(tokens_[rank]);
    const size_t common = static_cast<size_t>(std::ranges::mismatch(bytes, before).in1 - bytes.begin());
    leave(common, rank);
    for (size_t i = common; i < bytes.size(); ++i) {
      way.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.byte = static_cast<uint8_t>(bytes[i]), .next = 0, .first = rank, .own = rank, .last = 0});
      bytes_.set(static_cast<uint8_t>(bytes[i]));
    }
    nodes_[way.back()].own = rank + 1;
    longest_ = std::max(longest_, bytes.size());
    before = bytes;
  }
  leave(0, static_cast<uint32_t>(tokens_.size()));
  core::require(longest_ <= kMostTokenBytes,
                "the vocabulary has a token of {} bytes, but structured output needs tokens of at most {}", longest_,
                kMostTokenBytes);
}

size_t Form::SamePlace::operator()(const Key& key) const {
  uint64_t hash = key.may_end ? 1 : 2;
  for (const Way& way : key.ways) {
    hash = (hash ^ key_of(way.state, way.stack)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29U;
  }
  return hash;
}

bool Form::SamePlace::operator()(const Key& a, Place b) const {
  const Key other = key(b);
  return a.may_end == other.may_end && std::ranges::equal(a.ways, other.ways);
}

Form::Key Form::SamePlace::key(Place place) const {
  const PlaceData& data = form->places_[static_cast<size_t>(place)];
  return {data.ways, data.may_end};
}

Form::Form(Grammar grammar, std::shared_ptr<const TokenTree> tokens, size_t most_bytes, uint64_t most_steps)
    : grammar_(std::move(grammar)),
      tokens_(std::move(tokens)),
      place_numbers_(16, SamePlace{this}, SamePlace{this}),
      most_bytes_(most_bytes),
      most_steps_(most_steps),
      start_(place_of({{.state = grammar_.part(grammar_.start()).begin, .stack = -1}})) {}

void Form::take(size_t n_bytes) {
  n_bytes_ += n_bytes;
  if (n_bytes_ > most_bytes_) {
    throw CapacityExceeded(
        core::message("the parser states of the constrained output need more than {} KB", most_bytes_ >> 10U));
  }
}

void Form::spend(size_t n_steps) {
  n_steps_ += n_steps;
  core::require(n_steps_ <= most_steps_, "computing the allowed tokens needs more than {} steps", most_steps_);
}

Form::Place Form::forget(Place kept) {
  n_steps_ = 0;  // otherwise place_of() might exceed the limit below, which would leave the form without a start
  const std::vector<StackNode> stacks = std::exchange(stacks_, {});
  PlaceData place = std::move(places_[static_cast<size_t>(kept)]);
  alike_stacks_.clear();
  stack_numbers_.clear();
  places_.clear();
  place_numbers_.clear();
  n_bytes_ = 0;
  ++generation_;
  start_ = place_of({{.state = grammar_.part(grammar_.start()).begin, .stack = -1}});
  for (Way& way : place.ways) {
    std::vector<StackNode> returns;
    for (; way.stack >= 0; way.stack = returns.back().below) returns.push_back(stacks[static_cast<size_t>(way.stack)]);
    for (; !returns.empty(); returns.pop_back()) way.stack = push(returns.back().back, way.stack);
  }
  return intern(place.ways, place.may_end);
}

int32_t Form::push(Grammar::State back, int32_t below) {
  const auto [found, is_new] = stack_numbers_.try_emplace(key_of(back, below), static_cast<int32_t>(stacks_.size()));
  if (is_new) {
    stacks_.push_back({.back = back, .below = below});
    alike_stacks_.push_back(-2);
    take(sizeof(StackNode) + sizeof(int32_t) + sizeof(std::pair<uint64_t, int32_t>) + kTableBytes);
  }
  return found->second;
}

int32_t Form::alike_stack(int32_t stack) {
  std::vector<int32_t> unknown;
  for (; stack >= 0 && alike_stacks_[static_cast<size_t>(stack)] == -2;
       stack = stacks_[static_cast<size_t>(stack)].below) {
    unknown.push_back(stack);
  }
  int32_t alike = stack < 0 ? -1 : alike_stacks_[static_cast<size_t>(stack)];
  for (; !unknown.empty(); unknown.pop_back()) {
    const auto index = static_cast<size_t>(unknown.back());
    alike = push(grammar_.alike(stacks_[index].back), alike);
    alike_stacks_[index] = alike;
    alike_stacks_[static_cast<size_t>(alike)] = alike;
  }
  return alike;
}

// Starting from the parses `todo`, follows all edges that read nothing. Returns the place (set of parses) reached, or
// kDead if no parse can continue or end.
Form::Place Form::place_of(std::vector<Way> todo) {
  ways_.clear();
  seen_.clear();
  bool may_end = false;
  while (!todo.empty()) {
    const Way way = todo.back();
    todo.pop_back();
    if (!seen_.insert(key_of(way.state, way.stack))) continue;
    core::require(seen_.size() <= kMostWays,
                  "the constrained output has more than {} possible parses; let alternatives differ earlier",
                  kMostWays);
    if (grammar_.ends_rule(way.state)) {
      if (way.stack < 0) {
        may_end = true;
      } else {
        const StackNode& node = stacks_[static_cast<size_t>(way.stack)];
        todo.push_back({.state = node.back, .stack = node.below});
      }
    }
    bool reads = false;
    spend(1 + grammar_.edges(way.state).size());
    for (const Grammar::Edge& edge : grammar_.edges(way.state)) {
      if (edge.kind == Grammar::Edge::Kind::Bytes) {
        reads = true;
      } else if (edge.kind == Grammar::Edge::Kind::Empty) {
        todo.push_back({.state = edge.to, .stack = way.stack});
      } else {
        const int32_t stack = grammar_.is_last(edge.to) ? way.stack : push(edge.to, way.stack);
        todo.push_back({.state = grammar_.part(edge.rule).begin, .stack = stack});
      }
    }
    if (reads) ways_.push_back(way);
  }
  if (ways_.empty() && !may_end) return kDead;
  return intern(ways_, may_end);
}

Form::Place Form::intern(std::vector<Way>& ways, bool may_end) {
  std::ranges::sort(ways);
  ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
  if (const auto found = place_numbers_.find(Key{ways, may_end}); found != place_numbers_.end()) return *found;
  take(sizeof(PlaceData) + ways.size() * sizeof(Way) + sizeof(Place) + kTableBytes);
  const auto place = static_cast<Place>(places_.size());
  places_.push_back({.ways = ways, .may_end = may_end});
  place_numbers_.insert(place);
  return place;
}

// Advances the parses `ways` by `byte`. Drops those that can't read it.
std::vector<Form::Way> Form::read(std::span<const Way> ways, uint8_t byte) const {
  std::vector<Way> reached;
  for (const Way& way : ways) {
    for (const Grammar::Edge& edge : grammar_.edges(way.state)) {
      if (edge.kind == Grammar::Edge::Kind::Bytes && edge.low <= byte && byte <= edge.high) {
        reached.push_back({.state = edge.to, .stack = way.stack});
      }
    }
  }
  return reached;
}

void Form::expand(Place place) {
  if (places_[static_cast<size_t>(place)].is_expanded) return;
  const std::vector<Way> ways = places_[static_cast<size_t>(place)].ways;
  // Byte values at which the set of matching edges changes.
  std::bitset<257> cuts;
  for (const Way& way : ways) {
    for (const Grammar::Edge& edge : grammar_.edges(way.state)) {
      if (edge.kind != Grammar::Edge::Kind::Bytes) continue;
      cuts.set(edge.low);
      cuts.set(static_cast<size_t>(edge.high) + 1);
    }
  }
  // Numbers the intervals of bytes between cuts: all bytes of an interval match the same edges.
  std::array<size_t, 257> stretch_of{};
  size_t n_stretches = 0;
  for (size_t byte = 0; byte < stretch_of.size(); ++byte) {
    if (byte == 0 || cuts[byte]) ++n_stretches;
    stretch_of[byte] = n_stretches - 1;
  }
  std::vector<std::vector<Way>> reached_by(n_stretches);
  for (const Way& way : ways) {
    for (const Grammar::Edge& edge : grammar_.edges(way.state)) {
      if (edge.kind != Grammar::Edge::Kind::Bytes) continue;
      const size_t end = stretch_of[static_cast<size_t>(edge.high) + 1];
      spend(1 + end - stretch_of[edge.low]);
      for (size_t i = stretch_of[edge.low]; i < end; ++i) {
        reached_by[i].push_back({.state = edge.to, .stack = way.stack});
      }
    }
  }
  std::vector<Step> steps;
  std::vector<std::pair<std::vector<Way>, Place>> known;  // (parses after a byte, their place)
  for (size_t low = 0; low < 256;) {
    size_t high = low;
    while (high < 255 && !cuts[high + 1]) ++high;
    std::vector<Way>& reached = reached_by[stretch_of[low]];
    if (!reached.empty()) {
      auto same = std::ranges::find(known, reached, &std::pair<std::vector<Way>, Place>::first);
      if (same == known.end()) {
        const Place to = place_of(reached);
        same = known.emplace(known.end(), std::move(reached), to);
      }
      const Place to = same->second;
      if (!steps.empty() && steps.back().to == to && size_t{steps.back().high} + 1 == low) {
        steps.back().high = static_cast<uint8_t>(high);
      } else if (to != kDead) {
        steps.push_back({.low = static_cast<uint8_t>(low), .high = static_cast<uint8_t>(high), .to = to});
      }
    }
    low = high + 1;
  }
  take(steps.size() * sizeof(Step));
  PlaceData& data = places_[static_cast<size_t>(place)];
  data.steps = std::move(steps);
  data.is_expanded = true;
  for (const Step& step : data.steps) {
    for (size_t byte = step.low; byte <= step.high; ++byte) data.bytes.set(byte);
  }
}

// Returns the bytes after which most currently allowed bytes stay allowed, such as the characters in a JSON string.
std::bitset<256> Form::run_of(Place place) {
  const std::vector<Step> steps = places_[static_cast<size_t>(place)].steps;
  const std::bitset<256> bytes = places_[static_cast<size_t>(place)].bytes;
  std::bitset<256> run;
  std::bitset<256> after_run = bytes;  // bytes allowed after every byte of `run`
  for (const Step& step : steps) {
    expand(step.to);
    const std::bitset<256> common = bytes & places_[static_cast<size_t>(step.to)].bytes;
    if (4 * common.count() < 3 * bytes.count()) continue;
    after_run &= common;
    for (size_t byte = step.low; byte <= step.high; ++byte) run.set(byte);
  }
  return run & after_run;
}

// Returns true if every sequence of `length` bytes from `bytes` may come next. A token subtree with only these bytes
// then needs no traversal. May return false although true is correct, never the reverse.
bool Form::runs(Place place, const std::bitset<256>& bytes, uint32_t length) {
  constexpr size_t kMostReached = 256;
  expand(place);
  if ((bytes & ~places_[static_cast<size_t>(place)].bytes).any()) return false;
  if (!places_[static_cast<size_t>(place)].has_run) {
    const std::bitset<256> run = run_of(place);
    places_[static_cast<size_t>(place)].run = run;
    places_[static_cast<size_t>(place)].has_run = true;
  }
  const std::bitset<256> run = places_[static_cast<size_t>(place)].run;
  if ((bytes & ~run).any()) return false;
  const uint32_t known = places_[static_cast<size_t>(place)].run_length;
  if (known >= length || places_[static_cast<size_t>(place)].is_whole_run) return known >= length;
  std::vector<Place> reached{place};  // places reached by bytes of `run`, in breadth-first order
  uint32_t n = 0;
  bool extends = true;
  for (size_t first = 0; extends && n < length; ++n) {
    const size_t last = reached.size();
    if (first == last) {
      n = std::numeric_limits<uint32_t>::max();
      break;
    }
    for (size_t i = first; i < last; ++i) {
      expand(reached[i]);
      extends = extends && (run & ~places_[static_cast<size_t>(reached[i])].bytes).none();
    }
    if (!extends) break;
    for (; first < last; ++first) {
      for (const Step& step : places_[static_cast<size_t>(reached[first])].steps) {
        size_t byte = step.low;
        while (byte <= step.high && !run[byte]) ++byte;
        if (byte <= step.high && std::ranges::find(reached, step.to) == reached.end()) reached.push_back(step.to);
      }
    }
    extends = reached.size() <= kMostReached;
  }
  PlaceData& data = places_[static_cast<size_t>(place)];
  data.run_length = n;
  data.is_whole_run = n < length;
  return n >= length;
}

// If the transitions of `place` aren't cached, computes only the one for `byte`: most outputs reach a place only once.
Form::Place Form::after(Place place, uint8_t byte) {
  n_steps_ = 0;
  const PlaceData& data = places_[static_cast<size_t>(place)];
  if (!data.is_expanded) {
    std::vector<Way> reached = read(data.ways, byte);
    return reached.empty() ? kDead : place_of(std::move(reached));
  }
  for (const Step& step : data.steps) {
    if (step.low <= byte && byte <= step.high) return step.to;
  }
  return kDead;
}

Form::Place Form::after(Place place, std::string_view bytes) {
  for (const char byte : bytes) {
    if (place == kDead) break;
    place = after(place, static_cast<uint8_t>(byte));
  }
  return place;
}

std::optional<uint8_t> Form::forced(Place place) {
  n_steps_ = 0;
  expand(place);
  const PlaceData& data = places_[static_cast<size_t>(place)];
  if (data.may_end || data.steps.size() != 1 || data.steps[0].low != data.steps[0].high) return {};
  return data.steps[0].low;
}

const Form::Ranges& Form::allowed(Place place) {
  n_steps_ = 0;
  Place same = places_[static_cast<size_t>(place)].same;
  if (same == kDead) {
    std::vector<Way> alike = places_[static_cast<size_t>(place)].ways;
    for (Way& way : alike) way = {.state = grammar_.alike(way.state), .stack = alike_stack(way.stack)};
    same = intern(alike, places_[static_cast<size_t>(place)].may_end);
    places_[static_cast<size_t>(place)].same = same;
  }
  if (!places_[static_cast<size_t>(same)].allowed) {
    Ranges ranges;
    walk(0, tokens_->nodes().size(), same, ranges);
    take(ranges.size() * sizeof(Ranges::value_type));
    places_[static_cast<size_t>(same)].allowed = std::move(ranges);
  }
  return *places_[static_cast<size_t>(same)].allowed;
}

// Appends to `to` the index ranges of the tokens allowed in `place`, among those in the subtrees of the sibling nodes
// [first, end). Nodes and steps are both sorted by byte.
void Form::walk(size_t first, size_t end, Place place, Ranges& to) {
  expand(place);
  const auto add = [&](uint32_t from, uint32_t until) {
    if (from == until) return;
    if (!to.empty() && to.back().second == from) {
      to.back().second = until;
    } else {
      to.emplace_back(from, until);
    }
  };
  size_t s = 0;
  for (size_t n = first; n < end; n = tokens_->nodes()[n].next) {
    const TokenTree::Node& node = tokens_->nodes()[n];
    spend(1);
    const auto& steps = places_[static_cast<size_t>(place)].steps;
    while (s < steps.size() && steps[s].high < node.byte) ++s;
    if (s == steps.size()) return;
    if (node.byte < steps[s].low) continue;
    const Place next = steps[s].to;
    add(node.first, node.own);
    if (node.own == node.last) continue;
    if (runs(next, node.bytes_below, node.height)) {
      add(node.own, node.last);
    } else {
      walk(n + 1, node.next, next, to);
    }
  }
}

}  // namespace folio::infer::forms
