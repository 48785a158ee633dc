// Counts the bytes of a request's output that its reader has not consumed. When they reach a limit, the engine pauses
// the request and releases its KV blocks; other requests continue. When half of the limit is free, the request resumes.
#pragma once

#include <atomic>
#include <cstddef>

namespace folio::infer {

class Backlog {
 public:
  explicit Backlog(size_t limit) : limit_(limit) {}

  /// Adds output sent to the reader. Called on the engine's thread.
  void add(size_t n_bytes) { n_bytes_ += n_bytes; }
  /// Subtracts output that the reader has consumed. Returns true if a paused request may now resume: the caller must
  /// then wake the engine (AsyncEngine::wake()).
  [[nodiscard]] bool remove(size_t n_bytes) {
    const size_t before = n_bytes_.fetch_sub(n_bytes);
    return before > limit_ / 2 && before - n_bytes <= limit_ / 2;
  }

  /// Returns true if the request must be paused.
  [[nodiscard]] bool full() const { return n_bytes_ >= limit_; }
  /// Returns true if a paused request may resume: half of the limit is free, so it will not be paused again right away.
  [[nodiscard]] bool has_drained() const { return n_bytes_ <= limit_ / 2; }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }

 private:
  size_t limit_;
  std::atomic<size_t> n_bytes_ = 0;
};

}  // namespace folio::infer
