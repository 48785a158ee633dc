// Decides which loops of a few microseconds are shared among threads. Passing work to another core costs from 0.1 to
// several microseconds, depending on the placement of the threads. So loops of each size are timed both shared and on
// one thread, and the faster way is used until the next trial.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace folio::core {

class SharingTrials {
 public:
  /// Loops with an estimated time of at least this many microseconds on one thread are always shared.
  static constexpr size_t kAlwaysWorth = 256;

  /// Returns true if the next loop should be shared. `worth` is its estimated time on one thread, in microseconds.
  [[nodiscard]] bool shares(size_t worth) const {
    if (worth >= kAlwaysWorth) return true;
    const Size& size = sizes_[size_of(worth)];
    return size.shares != (size.phase == Phase::Other);
  }
  /// Returns true if record() needs the time of the next loop.
  [[nodiscard]] bool times(size_t worth) const {
    return worth < kAlwaysWorth && sizes_[size_of(worth)].phase != Phase::Keep;
  }
  /// Records that a loop has ended. `time` is its time if times() returned true, and ignored otherwise.
  void record(size_t worth, std::chrono::nanoseconds time);

 private:
  enum class Phase : uint8_t { Own, Other, Keep };  ///< Own times the current choice, Other the alternative, Keep none
  struct Size {
    bool shares = true;
    Phase phase = Phase::Keep;
    uint32_t n_left = kFirstInterval;  ///< number of loops left in this phase
    uint32_t interval = kFirstInterval;
    double own = 0.0;  ///< sum of time / worth over the loops timed in phase Own
    double other = 0.0;
  };
  static constexpr uint32_t kLoops = 32;    ///< number of loops timed in a phase
  static constexpr uint32_t kWarmUp = 128;  ///< untimed loops before a trial of sharing; waking a worker takes > 100 us
  static constexpr uint32_t kFirstInterval = 256;
  static constexpr uint32_t kLastInterval = 1U << 15U;

  [[nodiscard]] static size_t size_of(size_t worth) {
    size_t log2 = 0;
    while (worth >>= 1U) ++log2;
    return log2;
  }

  std::array<Size, 8> sizes_{};  ///< indexed by log2(worth)
};

}  // namespace folio::core
