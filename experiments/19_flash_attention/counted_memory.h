// A memory behind a cache, and what is moved between them: 64-byte lines, of which the one that was used the longest
// ago goes out first. Numbers can only be reached through load() and store(), so none escapes the count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace folio::experiments {

class CountedMemory {
 public:
  explicit CountedMemory(size_t cache_bytes) : capacity_(cache_bytes / kLineBytes) {}

  /// Room for n numbers, all 0, at the returned place. Nothing is moved.
  [[nodiscard]] size_t allocate(size_t n);

  /// The n numbers from `at` on, to be read; valid until the next allocate(). Lines that the cache lacks are fetched.
  [[nodiscard]] const float* load(size_t at, size_t n);
  /// The same, to be overwritten: nothing is fetched, and the lines are written back when they leave the cache.
  [[nodiscard]] float* store(size_t at, size_t n);
  /// The same, to be changed: fetched, and later written back.
  [[nodiscard]] float* update(size_t at, size_t n);
  /// To put inputs there, and to look at results.
  [[nodiscard]] float* uncounted(size_t at) { return numbers_.data() + at; }

  /// Bytes fetched and written back, those that still have to be written back included.
  [[nodiscard]] uint64_t bytes_moved() const { return (fetched_ + written_ + n_dirty_) * kLineBytes; }

 private:
  static constexpr size_t kLineBytes = 64;
  static constexpr size_t kLineNumbers = kLineBytes / sizeof(float);
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Line {
    uint32_t older = kNone;
    uint32_t newer = kNone;
    bool cached = false;
    bool dirty = false;
  };

  void touch(size_t at, size_t n, bool fetch, bool write);
  void unlink(uint32_t line);
  void put_newest(uint32_t line);
  void evict_oldest();

  size_t capacity_;  ///< lines
  std::vector<float> numbers_;
  std::vector<Line> lines_;
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  size_t n_cached_ = 0;
  uint64_t n_dirty_ = 0;
  uint64_t fetched_ = 0;
  uint64_t written_ = 0;
};

}  // namespace folio::experiments
