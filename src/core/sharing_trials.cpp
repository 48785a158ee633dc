#include "core/sharing_trials.h"

#include <algorithm>

namespace folio::core {

// Caps the recorded time, since a longer time only shows that a thread waited for a core (see ThreadLimit).
void SharingTrials::record(size_t worth, std::chrono::nanoseconds time) {
  constexpr double kMostTimes = 4.0;
  constexpr double kMostMore = 10.0;  // microseconds: the cap is kMostTimes * expected + kMostMore
  if (worth >= kAlwaysWorth) return;
  Size& size = sizes_[size_of(worth)];
  if (size.phase != Phase::Keep && size.n_left <= kLoops) {
    const double us = std::chrono::duration<double, std::micro>(time).count();
    const auto expected = static_cast<double>(worth);
    (size.phase == Phase::Own ? size.own : size.other) += std::min(us, kMostTimes * expected + kMostMore) / expected;
  }
  if (--size.n_left > 0) return;
  if (size.phase == Phase::Keep) {
    size.phase = Phase::Own;
    size.n_left = kLoops;  // no warm-up is needed: if loops are shared now, workers are awake
    size.own = size.other = 0.0;
  } else if (size.phase == Phase::Own) {
    size.phase = Phase::Other;
    size.n_left = kLoops + (size.shares ? 0 : kWarmUp);
  } else {
    const bool changes = size.other < size.own;
    size.shares = size.shares != changes;
    size.interval = changes ? kFirstInterval : std::min(2 * size.interval, kLastInterval);
    size.phase = Phase::Keep;
    size.n_left = size.interval;
  }
}

}  // namespace folio::core
