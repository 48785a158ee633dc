// A hash table from pairs of tokens to values, with open addressing. An encoder looks up several pairs per character,
// and most are missing; std::unordered_map would need a division and three cache misses for each.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace folio::data {

using TokenPair = uint64_t;  ///< left ID in the upper 32 bits, right ID in the lower: sorts by left ID first

[[nodiscard]] inline TokenPair pair_of(int32_t left, int32_t right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32U) | static_cast<uint32_t>(right);
}

template <typename Value>
class PairTable {
 public:
  /// Creates an empty table with memory for `n_pairs` pairs. Inserting more makes it grow.
  explicit PairTable(size_t n_pairs = 0)
      : slots_(std::bit_ceil(2 * n_pairs + 2)), shift_(static_cast<unsigned>(std::countl_zero(slots_.size())) + 1) {}

  /// Returns the value of a pair, or null if it has none.
  [[nodiscard]] const Value* find(TokenPair pair) const {
    const Slot& slot = slots_[slot_of(pair)];
    return slot.pair == pair ? &slot.value : nullptr;
  }

  /// Returns the value of a pair. Inserts Value() if the pair has none. Invalidates earlier references.
  Value& operator[](TokenPair pair) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[slot_of(pair)];
    size_ += slot.pair == kFree ? 1 : 0;
    slot.pair = pair;
    return slot.value;
  }

 private:
  static constexpr TokenPair kFree = ~uint64_t{0};
  struct Slot {
    TokenPair pair = kFree;
    Value value{};
  };

  [[nodiscard]] size_t slot_of(TokenPair pair) const {
    size_t at = (pair * 0x9E3779B97F4A7C15U) >> shift_;  // Fibonacci hashing
    while (slots_[at].pair != kFree && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    --shift_;
    for (const Slot& slot : before) {
      if (slot.pair != kFree) slots_[slot_of(slot.pair)] = slot;
    }
  }

  std::vector<Slot> slots_;
  unsigned shift_;
  size_t size_ = 0;
};

}  // namespace folio::data
