// Simulates a memory with a cache, and counts the bytes moved between memory and cache. Elements are accessible only
// through load(), store() and update(), so that every access is counted.
#pragma once

#include "experiments/common/line_cache.h"

namespace folio::experiments {

class CountedMemory {
 public:
  explicit CountedMemory(size_t cache_bytes) : cache_(cache_bytes, 0) {}

  /// Allocates n zeros, aligned to cache lines, and returns their offset. Moves no data.
  [[nodiscard]] size_t allocate(size_t n) {
    const size_t at = numbers_.size();
    numbers_.resize(at + (n + kOfLine - 1) / kOfLine * kOfLine);
    cache_.grow(numbers_.size() / kOfLine);
    return at;
  }

  /// Returns `n` elements at offset `at` for reading, valid until the next allocate(). Fetches lines not in the cache.
  [[nodiscard]] const float* load(size_t at, size_t n) { return touch(at, n, true, false); }
  /// Returns `n` elements for overwriting. Fetches nothing, and writes the lines back on eviction.
  [[nodiscard]] float* store(size_t at, size_t n) { return touch(at, n, false, true); }
  /// Returns `n` elements for updating. Fetches lines not in the cache, and writes them back on eviction.
  [[nodiscard]] float* update(size_t at, size_t n) { return touch(at, n, true, true); }
  /// Returns a pointer to the element at offset `at` for uncounted accesses, to set inputs and to read results.
  [[nodiscard]] float* uncounted(size_t at) { return numbers_.data() + at; }

  /// Returns the bytes fetched and written back so far.
  [[nodiscard]] uint64_t bytes_moved() const { return cache_.bytes_fetched() + cache_.bytes_written(); }

 private:
  static constexpr size_t kOfLine = LineCache::kLineBytes / sizeof(float);

  float* touch(size_t at, size_t n, bool fetch, bool write) {
    for (size_t line = at / kOfLine; line * kOfLine < at + n; ++line) cache_.touch(line, fetch, write);
    return uncounted(at);
  }

  LineCache cache_;
  std::vector<float> numbers_;
};

}  // namespace folio::experiments
