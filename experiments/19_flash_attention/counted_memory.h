// A memory behind a cache, and what is moved between them. Numbers can only be reached through load() and store(), so
// none escapes the count.
#pragma once

#include "experiments/common/line_cache.h"

namespace folio::experiments {

class CountedMemory {
 public:
  explicit CountedMemory(size_t cache_bytes) : cache_(cache_bytes, 0) {}

  /// Room for n numbers, all 0, at the returned place: whole lines. Nothing is moved.
  [[nodiscard]] size_t allocate(size_t n) {
    const size_t at = numbers_.size();
    numbers_.resize(at + (n + kOfLine - 1) / kOfLine * kOfLine);
    cache_.grow(numbers_.size() / kOfLine);
    return at;
  }

  /// The n numbers from `at` on, to be read; valid until the next allocate(). Lines that the cache lacks are fetched.
  [[nodiscard]] const float* load(size_t at, size_t n) { return touch(at, n, true, false); }
  /// The same, to be overwritten: nothing is fetched, and the lines are written back when they leave the cache.
  [[nodiscard]] float* store(size_t at, size_t n) { return touch(at, n, false, true); }
  /// The same, to be changed: fetched, and later written back.
  [[nodiscard]] float* update(size_t at, size_t n) { return touch(at, n, true, true); }
  /// To put inputs there, and to look at results.
  [[nodiscard]] float* uncounted(size_t at) { return numbers_.data() + at; }

  /// Fetched and written back.
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
