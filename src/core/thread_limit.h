// Limits the threads of a pool while other programs use the same cores.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>

namespace folio::core {

/// Returns the total time for which the calling thread was runnable but waited for a core: the second number in
/// /proc/thread-self/schedstat. Always 0 if the system does not count it.
[[nodiscard]] std::chrono::nanoseconds run_delay();

/// Returns the number of cores that other processes leave free. Reads /proc/loadavg, which counts the machine's running
/// and runnable threads, a few times or until `enough` are free, and returns the maximum, since system threads run only
/// briefly. Returns nullopt if the system does not count them, or if this process may not use all cores.
[[nodiscard]] std::optional<size_t> free_cores(size_t enough);

/// The number of threads to use. Threads that share a loop wait for each other, so one that waits for a core delays
/// all; with busy cores, one thread per free core is faster. The pool starts with that number. Later, threads that wait
/// for a core leave, except half of them. After two seconds all return if cores are free, and after twenty in any case,
/// since the machine may be larger than the container. If none waited then, free cores are no longer counted.
class ThreadLimit {
 public:
  /// More waiting threads on average indicate a busy process. On two cores: 0.6 to 1 with one, at most 0.15 without.
  static constexpr double kMany = 0.4;

  explicit ThreadLimit(size_t n_threads) : most_(n_threads), now_(n_threads) {}

  [[nodiscard]] size_t now() const { return now_; }

  /// Starts with one thread per free core, or with all threads if `free` is unknown. Call it before the first loop.
  void start(std::optional<size_t> free);
  /// Adapts the number of threads to `waiting`, the average number that waited for a core during the last window. Calls
  /// `free` before threads return.
  void update(double waiting, const std::function<std::optional<size_t>()>& free);

 private:
  size_t most_;
  size_t now_;
  size_t windows_left_ = 0;  ///< windows until another number is tried
  size_t n_kept_ = 0;        ///< how often the number was kept because no core was free
  bool tries_all_ = false;   ///< uses all threads although no core seems free
  bool asks_ = true;         ///< the count of free cores is still trusted
};

}  // namespace folio::core
