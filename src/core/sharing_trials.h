// Decides which loops of a few microseconds are shared among threads. Passing work to another core costs between 0.1
// and several microseconds, depending on where the system has placed the two. So both ways are timed, for each size of
// loop by itself, and the faster one is kept until the next trial.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace folio::core {

class SharingTrials {
 public:
  /// Loops that take one thread longer than this, in microseconds, are always shared.
  static constexpr size_t kAlwaysWorth = 256;

  /// Returns whether the next loop is to be shared. `worth`: microseconds that one thread takes for it, as estimated.
  [[nodiscard]] bool shares(size_t worth) const {
    if (worth >= kAlwaysWorth) return true;
    const Size& size = sizes_[size_of(worth)];
    return size.shares != (size.phase == Phase::Other);
  }
  /// Returns whether record() needs the time of the next loop.
  [[nodiscard]] bool times(size_t worth) const {
    return worth < kAlwaysWorth && sizes_[size_of(worth)].phase != Phase::Keep;
  }
  /// A loop has ended. `took`: its time, where times() was true.
  void record(size_t worth, std::chrono::nanoseconds took);

 private:
  enum class Phase : uint8_t { Own, Other, Keep };  ///< times the present way, times the other one, times nothing
  struct Size {
    bool shares = true;
    Phase phase = Phase::Keep;
    uint32_t n_left = kFirstInterval;  ///< loops of this phase
    uint32_t interval = kFirstInterval;
    double own = 0.0;  ///< time for each microsecond of worth, summed over the loops that were timed
    double other = 0.0;
  };
  static constexpr uint32_t kLoops = 32;
  static constexpr uint32_t kWarmUp =
      128;  ///< shared loops before those: a worker takes 100 microseconds and more to wake
  static constexpr uint32_t kFirstInterval = 256;
  static constexpr uint32_t kLastInterval = 1U << 15U;

  [[nodiscard]] static size_t size_of(size_t worth) {
    size_t log2 = 0;
    while (worth >>= 1U) ++log2;
    return log2;
  }

  std::array<Size, 8> sizes_{};  ///< by log2 of the worth
};

}  // namespace folio::core
