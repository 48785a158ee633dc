// A cache in lines of 64 bytes that drops the line which was not used for longest, and counts what moves. It holds no
// numbers: lines go by their index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace folio::experiments {

class LineCache {
 public:
  static constexpr size_t kLineBytes = 64;

  /// Of so many bytes, for lines [0, n_lines).
  LineCache(size_t cache_bytes, size_t n_lines) : capacity_(cache_bytes / kLineBytes), lines_(n_lines + 1) {}

  /// Lines [0, n_lines) from now on.
  void grow(size_t n_lines) { lines_.resize(n_lines + 1); }

  /// A line is used. Where the cache lacks it, it is fetched, unless all of it is going to be overwritten (`fetch`
  /// false). With `write` it is written back when it leaves the cache.
  void touch(size_t line, bool fetch, bool write);

  /// Bytes of the lines that were fetched.
  [[nodiscard]] uint64_t bytes_fetched() const { return n_fetched_ * kLineBytes; }
  /// Bytes of the lines that were written back or still have to be.
  [[nodiscard]] uint64_t bytes_written() const { return (n_written_ + n_dirty_) * kLineBytes; }

 private:
  // In the order of their last use, as a ring that begins and ends at lines_[0]: line i of the caller is lines_[i + 1].
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
