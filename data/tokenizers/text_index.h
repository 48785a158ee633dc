// A hash table from texts to IDs, with open addressing and 8 bytes per slot. An encoder looks up several texts per
// character, and most are missing; std::unordered_map would need a division and three cache misses for each.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace folio::data {

class TextIndex {
 public:
  /// Creates an empty index into `texts`, which must outlive the index and must not be resized.
  explicit TextIndex(const std::vector<std::string>& texts)
      : texts_(texts.data()), slots_(std::bit_ceil(2 * texts.size() + 1)) {}

  /// Adds the text texts[id], which must not be in the index yet.
  void add(int32_t id) {
    const uint64_t hash = hash_of(texts_[id]);
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {.tag = static_cast<uint32_t>(hash >> 32U), .id = id};
  }

  /// Returns the ID of `text`, or -1.
  [[nodiscard]] int32_t find(std::string_view text) const {
    const uint64_t hash = hash_of(text);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.id < 0) return -1;
      if (slot.tag == static_cast<uint32_t>(hash >> 32U) && texts_[slot.id] == text) return slot.id;
    }
  }

 private:
  struct Slot {
    uint32_t tag = 0;  ///< upper half of the hash; texts are compared only if their tags are equal
    int32_t id = -1;
  };

  // Returns the FNV-1a hash (Fowler, Noll, Vo), with its upper bits folded into the lower ones, which select the slot.
  static uint64_t hash_of(std::string_view text) {
    uint64_t hash = 0xCBF29CE484222325U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    return hash ^ (hash >> 29U);
  }

  const std::string* texts_;
  std::vector<Slot> slots_;
};

}  // namespace folio::data
