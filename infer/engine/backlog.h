// Bytes of a request's output that its reader has not taken yet. The engine pauses the request while they are too many:
// it gives up its place and its blocks, others go on, and it is computed again from the cache once the reader has
// caught up. Counted in memory that the output takes, not in time.
#pragma once

#include <atomic>
#include <cstddef>

namespace folio::infer {

class Backlog {
 public:
  explicit Backlog(size_t limit) : limit_(limit) {}

  /// From the engine's thread, when output goes out to the reader.
  void add(size_t n_bytes) { n_bytes_ += n_bytes; }
  /// The reader has taken these. True: a paused request can go on from here, so the engine has to be woken.
  [[nodiscard]] bool remove(size_t n_bytes) {
    const size_t before = n_bytes_.fetch_sub(n_bytes);
    return before > limit_ / 2 && before - n_bytes <= limit_ / 2;
  }

  /// The request has to be paused.
  [[nodiscard]] bool full() const { return n_bytes_ >= limit_; }
  /// A paused request may go on: half of the limit is free, so that it is not paused again at once.
  [[nodiscard]] bool has_drained() const { return n_bytes_ <= limit_ / 2; }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }

 private:
  size_t limit_;
  std::atomic<size_t> n_bytes_ = 0;
};

}  // namespace folio::infer
