// The number of threads of a step, and how they wait for each other. OpenMP's threads spin for milliseconds before they
// sleep, which is fastest where each has a processor of its own. Where other programs run, they take the processor from
// the thread that they wait for, and a step takes three times as long. Then fewer threads are used, as many as others
// leave processors, if that changes no bit of the run; else all, which sleep.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>

namespace folio::train {

/// How many of `threads` threads have a processor each where other programs leave `processors_left`; at least one. With
/// hysteresis around `now`, their current number.
[[nodiscard]] int threads_that_fit(int now, double processors_left, int threads);

/// Measures what other programs use, and sets LibTorch's number of threads, or lets libgomp's threads spin or not. Does
/// nothing where GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, or where the system has no /proc/stat.
class StepThreads {
 public:
  /// For operations on `threads` threads. `repeats_with(n)`: whether n threads compute the same bits.
  StepThreads(int threads, std::function<bool(int)> repeats_with);
  ~StepThreads();

  /// Call it after each step. Measures every half second, which costs some microseconds.
  void watch();
  /// Adapts to n threads that have a processor each.
  void fit(int n);
  /// Lets the threads spin as OpenMP does by default, or hardly.
  void set_spinning(bool spin);
  [[nodiscard]] bool spins() const { return extra_ == nullptr; }

 private:
  class ExtraThreads;
  int threads_;
  std::function<bool(int)> repeats_with_;
  std::set<int> same_bits_;  ///< numbers of threads that compute the bits of threads_
  bool watches_;
  std::chrono::steady_clock::time_point since_;
  double others_before_ = 0.0;  ///< seconds that other programs had used until since_
  int now_;                     ///< threads that have a processor each
  std::unique_ptr<ExtraThreads> extra_;
};

}  // namespace folio::train
