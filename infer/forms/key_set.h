// A hash set of 64-bit integers (open addressing), for sets that are small and often cleared.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace folio::infer::forms {

class KeySet {
 public:
  [[nodiscard]] size_t size() const { return size_; }
  void clear() {
    keys_.assign(32, kFree);
    size_ = 0;
  }

  /// Inserts `key`, which must not be ~0. Returns false if it was already present.
  bool insert(uint64_t key) {
    if (2 * size_ >= keys_.size()) {
      const std::vector<uint64_t> before = std::exchange(keys_, std::vector<uint64_t>(4 * keys_.size(), kFree));
      for (const uint64_t old : before) {
        if (old != kFree) slot(old) = old;
      }
    }
    uint64_t& found = slot(key);
    if (found == key) return false;
    found = key;
    ++size_;
    return true;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};

  uint64_t& slot(uint64_t key) {
    size_t i = (key * 0x9E3779B97F4A7C15ULL) >> 32U;
    while (keys_[i & (keys_.size() - 1)] != kFree && keys_[i & (keys_.size() - 1)] != key) ++i;
    return keys_[i & (keys_.size() - 1)];
  }

  std::vector<uint64_t> keys_ = std::vector<uint64_t>(32, kFree);
  size_t size_ = 0;
};

}  // namespace folio::infer::forms
