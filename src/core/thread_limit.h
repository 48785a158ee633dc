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

/// Returns the number of cores that other processes leave free: the maximum of a few readings of /proc/loadavg, which
/// counts the machine's running and runnable threads. Stops reading once `enough` cores are free. Returns nullopt if
/// the system does not count threads, or if this process may not use all cores.
[[nodiscard]] std::optional<size_t> free_cores(size_t enough);

/// The number of threads that a pool should use, at least half of its threads. Threads that share a loop wait for each
/// other, so a thread without a core delays all. A pool starts with one thread per free core. update() removes as many
/// threads as wait for a core. It tries all threads again after 2 seconds if cores are free. After 20 seconds it tries
/// them in any case, because the count of free cores may be wrong in a container: if no thread waits in this trial,
/// update() ignores the count afterwards.
class ThreadLimit {
 public:
  /// If more threads than this wait for a core on average, other programs use the cores. Measured on two cores: at most
  /// 0.15 without other programs, 0.6 to 1 with them.
  static constexpr double kMany = 0.4;

  explicit ThreadLimit(size_t n_threads) : most_(n_threads), now_(n_threads) {}

  [[nodiscard]] size_t now() const { return now_; }

  /// Sets the number of threads to `free`, the number of free cores, but to at least half of the threads. Uses all
  /// threads if `free` is unknown or proved wrong. Call it before the first loop and after a pause.
  void start(std::optional<size_t> free);
  /// Adapts the number of threads to `waiting`, the average number of threads that waited for a core during the last
  /// measurement window. Calls `free`, which returns free_cores(), before it increases the number.
  void update(double waiting, const std::function<std::optional<size_t>()>& free);

 private:
  size_t most_;
  size_t now_;
  size_t windows_left_ = 0;      ///< number of measurement windows (0.1 s each) until more threads are tried
  size_t n_kept_ = 0;            ///< how often the number of threads was kept because no core was free
  bool tries_all_ = false;       ///< true while all threads are tried although no core seems free
  bool uses_free_cores_ = true;  ///< true while the count of free cores is used; false once it proved wrong
};

}  // namespace folio::core
