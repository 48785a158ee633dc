// How many threads steps use, and how they wait for each other. OpenMP's threads spin where they wait: GCC's for
// milliseconds, before they sleep. That is fastest where each has a processor of its own. Beside other programs they
// take the processor from the thread that they wait for, and a step takes three times as long. So fewer threads are
// used then, as many as others leave processors, if that changes no bit of the run; else all, which sleep.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>

namespace folio::train {

/// How many of `threads` threads have a processor each if other programs leave so many (their time over the clock's);
/// at least one. `now`: how many there are now; near the bounds that stays.
[[nodiscard]] int threads_that_fit(int now, double processors_left, int threads);

/// Watches what others use, and sets LibTorch's number of threads, or lets libgomp's threads spin or not. Does nothing
/// where the user has said how to wait (GOMP_SPINCOUNT, OMP_WAIT_POLICY) or the system doesn't tell how its processors
/// are used.
class StepThreads {
 public:
  /// For operations on `threads` threads. `repeats_with(n)`: whether n threads compute the same bits.
  StepThreads(int threads, std::function<bool(int)> repeats_with);
  StepThreads(const StepThreads&) = delete;
  StepThreads& operator=(const StepThreads&) = delete;
  ~StepThreads();

  /// Call it after each step. Looks every half second; that costs some microseconds.
  void watch();

  /// As if n threads had a processor each.
  void fit(int n);

  /// Lets the threads spin as OpenMP has it, or hardly.
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
