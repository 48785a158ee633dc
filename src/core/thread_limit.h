// How many threads of a pool take part where other programs compute on the same cores.
#pragma once

#include <chrono>
#include <cstddef>

namespace folio::core {

/// How long the calling thread has been ready to run but waited for a core, in all: the second number of
/// /proc/thread-self/schedstat. Always 0 where the system does not count it.
[[nodiscard]] std::chrono::nanoseconds run_delay();

/// The threads that share a loop wait for each other, so one that waits for a core holds up all. If others use some of
/// the cores, the threads for the remaining ones are faster alone. How many cores are used can't be asked for in a
/// container, so it is tried: threads that wait leave until none waits, but half of them stay; after two seconds all
/// come back, and if cores are free by then, they stay.
class ThreadLimit {
 public:
  explicit ThreadLimit(size_t n_threads) : most_(n_threads), now_(n_threads) {}

  [[nodiscard]] size_t now() const { return now_; }

  /// `waiting`: how many of the threads, on average over the last window, waited for a core.
  void update(double waiting);

 private:
  size_t most_;
  size_t now_;
  size_t windows_left_ = 0;  ///< until another number is tried
};

}  // namespace folio::core
