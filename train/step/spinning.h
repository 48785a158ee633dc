// OpenMP's threads spin where they wait for each other: GCC's for milliseconds, before they sleep. That is fastest
// where each has a processor of its own. Beside other programs they take the processor from the thread that they wait
// for, and a step takes three times as long. So they spin while others leave enough processors, and only then.
#pragma once

#include <chrono>
#include <memory>

namespace folio::train {

/// Whether `threads` threads should spin if other programs leave so many processors (their time over the clock's).
/// `spin`: whether they do now; between the bounds that stays.
[[nodiscard]] bool should_spin(bool spin, double processors_left, int threads);

/// Watches what others use, and lets libgomp's threads spin or not. Does nothing where the user has said how to wait
/// (GOMP_SPINCOUNT, OMP_WAIT_POLICY) or the system doesn't tell how its processors are used.
class Spinning {
 public:
  /// For operations on `threads` threads.
  explicit Spinning(int threads);
  Spinning(const Spinning&) = delete;
  Spinning& operator=(const Spinning&) = delete;
  ~Spinning();

  /// Call it after each step. Looks every half second; that costs some microseconds.
  void watch();

  /// Lets the threads spin as OpenMP has it, or hardly.
  void set(bool spin);
  [[nodiscard]] bool spins() const { return extra_ == nullptr; }

 private:
  class ExtraThreads;
  int threads_;
  bool watches_;
  std::chrono::steady_clock::time_point since_;
  double others_before_ = 0.0;  ///< seconds that other programs had used until since_
  std::unique_ptr<ExtraThreads> extra_;
};

}  // namespace folio::train
