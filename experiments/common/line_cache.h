// Simulates an LRU cache with 64-byte lines and counts the bytes transferred. Lines are identified by index; no data is
// stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace folio::experiments {

class LineCache {
 public:
  static constexpr size_t kLineBytes = 64;

  /// Creates a cache of `cache_bytes` for lines [0, n_lines).
  LineCache(size_t cache_bytes, size_t n_lines) : capacity_(cache_bytes / kLineBytes), lines_(n_lines + 1) {}

  /// Extends the range of lines to [0, n_lines).
  void grow(size_t n_lines) { lines_.resize(n_lines + 1); }

  /// Accesses a line. A miss fetches it unless `fetch` is false (the line will be overwritten completely). `write`
  /// marks the line dirty, so that it is written back on eviction.
  void touch(size_t line, bool fetch, bool write);

  /// Returns the total bytes fetched.
  [[nodiscard]] uint64_t bytes_fetched() const { return n_fetched_ * kLineBytes; }
  /// Returns the total bytes written back, including lines that are still dirty.
  [[nodiscard]] uint64_t bytes_written() const { return (n_written_ + n_dirty_) * kLineBytes; }

 private:
  // A node of the circular list in LRU order, whose sentinel is lines_[0]. Cache line i is lines_[i + 1].
  struct Line {
    uint32_t newer = 0;
    uint32_t older = 0;
    bool cached = false;
    bool dirty = false;
  };
  void unlink(uint32_t line);
  void drop(uint32_t line);

  size_t capacity_;
  std::vector<Line> lines_;
  size_t n_cached_ = 0;
  uint64_t n_dirty_ = 0;
  uint64_t n_fetched_ = 0;
  uint64_t n_written_ = 0;
};

}  // namespace folio::experiments
