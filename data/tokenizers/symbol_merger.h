// The merge loop of byte-pair encoding, for any function that ranks pairs of symbols. Merges the adjacent pair with the
// lowest rank, leftmost first, until no pair has a rank. Takes O(n log n) steps for n symbols (with a heap and a list).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace folio::data {

struct Symbol {
  uint32_t begin = 0;
  uint32_t size = 0;  ///< 0 if the symbol was merged into the one on its left
  int32_t previous = -1;
  int32_t next = -1;
  int32_t id = -1;
};

/// The result of merging two adjacent symbols: the symbol's ID, and the rank of the merge.
struct Join {
  uint32_t rank;
  int32_t id;
};

class SymbolMerger {
 public:
  void clear() { symbols_.clear(); }
  /// Appends a symbol of `size` > 0 bytes that begins at byte `begin` of the text.
  void add(size_t begin, size_t size, int32_t id) {
    const auto i = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({.begin = static_cast<uint32_t>(begin),
                        .size = static_cast<uint32_t>(size),
                        .previous = i - 1,
                        .next = i + 1,
                        .id = id});
  }

  /// Merges adjacent pairs until none can be merged. rule(left, right) returns the Join of a pair, or nullopt if it
  /// cannot be merged. Returns all symbols. Those of size 0 were merged into others and must be skipped.
  template <typename Rule>
  const std::vector<Symbol>& merge(Rule&& rule) {
    heap_.clear();
    if (symbols_.empty()) return symbols_;
    symbols_.back().next = -1;
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) add_candidate(static_cast<int32_t>(i), rule);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate best = heap_.back();
      heap_.pop_back();
      join(best, rule);
    }
    return symbols_;
  }

 private:
  // A pair to merge. It is outdated if the sizes of its two symbols, which only grow, no longer add up to `size`.
  struct Candidate {
    uint64_t order;  ///< the rank in the upper bits, then the position
    uint32_t size;
    int32_t id;
    bool operator<(const Candidate& other) const { return order > other.order; }  // the lowest order comes first
  };

  // If the pair that begins at `left` has a rank, appends it to heap_ and returns true. The caller must then restore
  // the heap order.
  template <typename Rule>
  bool add_candidate(int32_t left, Rule& rule) {
    const Symbol& a = symbols_[static_cast<size_t>(left)];
    const Symbol& b = symbols_[static_cast<size_t>(a.next)];
    const std::optional<Join> found = rule(a, b);
    if (!found) return false;
    heap_.push_back({.order = uint64_t{found->rank} << 32U | static_cast<uint32_t>(left),
                     .size = a.size + b.size,
                     .id = found->id});
    return true;
  }

  template <typename Rule>
  void join(const Candidate& best, Rule& rule) {
    const auto at = static_cast<int32_t>(static_cast<uint32_t>(best.order));
    Symbol& a = symbols_[static_cast<size_t>(at)];
    if (a.size == 0 || a.next < 0) return;
    Symbol& b = symbols_[static_cast<size_t>(a.next)];
    if (a.size + b.size != best.size) return;
    a.size = best.size;
    a.id = best.id;
    a.next = b.next;
    b.size = 0;
    if (a.next >= 0) symbols_[static_cast<size_t>(a.next)].previous = at;
    if (a.next >= 0 && add_candidate(at, rule)) std::push_heap(heap_.begin(), heap_.end());
    if (a.previous >= 0 && add_candidate(a.previous, rule)) std::push_heap(heap_.begin(), heap_.end());
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace folio::data
