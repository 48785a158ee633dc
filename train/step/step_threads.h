// Adapts a step's threads to the load of other programs. OpenMP threads spin for milliseconds before they sleep, which
// is fastest if each has its own processor. On a busy machine, spinning threads take the processor from the thread that
// they wait for, and a step takes three times as long. Then only as many threads are used as processors are free, if
// results stay bitwise equal; otherwise all threads are used, without spinning.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>

namespace folio::train {

/// Returns the number of threads, in [1, threads], that fit on `processors_left`, the processors not used by other
/// programs. Prefers the current number, `now`, so that it does not change with each small variation (hysteresis).
[[nodiscard]] int threads_that_fit(int now, double processors_left, int threads);

/// Measures the load of other programs, and sets LibTorch's number of threads or turns libgomp's spinning on or off.
/// Does nothing if GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, or if there is no /proc/stat.
class StepThreads {
 public:
  /// Starts with the maximum, `threads`. `repeats_with(n)` must return true if a step with n threads computes the same
  /// bits as with the current number of threads.
  StepThreads(int threads, std::function<bool(int)> repeats_with);
  ~StepThreads();

  /// Must be called after each step. Measures the load every half second, which costs a few microseconds.
  void watch();
  /// Uses n threads if they compute the same bits as all threads. Otherwise uses all threads, without spinning.
  void fit(int n);
  /// Makes waiting OpenMP threads spin for milliseconds, which is the default, or sleep almost immediately.
  void set_spinning(bool spin);
  [[nodiscard]] bool spins() const { return extra_ == nullptr; }

 private:
  class ExtraThreads;
  int threads_;
  std::function<bool(int)> repeats_with_;
  std::set<int> same_bits_;  ///< thread counts known to compute the same bits as threads_
  bool watches_;
  std::chrono::steady_clock::time_point since_;
  double others_before_ = 0.0;  ///< CPU seconds since boot that other programs had used at the time since_
  int now_;                     ///< number of threads that fit (threads_that_fit())
  std::unique_ptr<ExtraThreads> extra_;
};

}  // namespace folio::train
