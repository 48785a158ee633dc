// How many threads of a pool take part where other programs compute on the same cores.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>

namespace folio::core {

/// How long the calling thread has been ready to run but waited for a core, in all: the second number of
/// /proc/thread-self/schedstat. Always 0 where the system does not count it.
[[nodiscard]] std::chrono::nanoseconds run_delay();

/// Returns how many cores the threads of other processes leave free, or `enough` where there are more: of several
/// looks, some microseconds apart, the one that saw the most, since the system's own threads run for a moment. Looks at
/// /proc/loadavg, which counts the threads of the whole machine that run or are ready to run. Returns no value where
/// the system does not count them, or this process may not use all cores.
[[nodiscard]] std::optional<size_t> free_cores(size_t enough);

/// The threads that share a loop wait for each other, so one that waits for a core delays all. If other programs use
/// some of the cores, as many threads as there are cores left are faster. The pool starts with these. Later, threads
/// that wait for a core leave until none waits, except half of them. After two seconds all return if cores are free,
/// and after twenty in any case: the machine may be larger than the container. If they did not wait then, free cores
/// are no longer counted.
class ThreadLimit {
 public:
  /// More threads than this, on average, wait beside a busy process: 0.6 to 1 on two cores; without one at most 0.15.
  static constexpr double kMany = 0.4;

  explicit ThreadLimit(size_t n_threads) : most_(n_threads), now_(n_threads) {}

  [[nodiscard]] size_t now() const { return now_; }

  /// Before the first loop: `free` cores are left, if that is known.
  void start(std::optional<size_t> free);
  /// `waiting`: how many of the threads, on average over the last window, waited for a core. `free` is called before
  /// threads return.
  void update(double waiting, const std::function<std::optional<size_t>()>& free);

 private:
  size_t most_;
  size_t now_;
  size_t windows_left_ = 0;  ///< until another number is tried
  size_t n_kept_ = 0;        ///< times that no other number was tried, since no core was free
  bool tries_all_ = false;   ///< although no core seems to be free
  bool asks_ = true;         ///< the count of free cores has not been wrong
};

}  // namespace folio::core
