#include "core/thread_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace folio::core {

std::chrono::nanoseconds run_delay() {
  const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[64] = {};
  const ssize_t n = ::read(file, text, sizeof text - 1);
  ::close(file);
  unsigned long long ran = 0;
  long long waited = 0;
  return std::chrono::nanoseconds(n > 0 && std::sscanf(text, "%llu %lld", &ran, &waited) == 2 ? waited : 0);
}

void ThreadLimit::update(double waiting) {
  constexpr double kMany = 0.4;  // with one busy process on two cores 0.6 to 1, without at most 0.15
  constexpr double kFew = 0.2;   // with as many threads as there are cores left 0.05
  constexpr size_t kStay = 20;   // windows
  const size_t fewest = (most_ + 1) / 2;
  const bool all = now_ == most_;
  if (windows_left_ > 0) --windows_left_;
  if (waiting > (all ? kMany : kFew) && now_ > fewest) {
    now_ -= std::clamp<size_t>(static_cast<size_t>(std::lround(waiting)), 1, now_ - fewest);
    windows_left_ = kStay;
  } else if (windows_left_ == 0) {
    now_ = most_;
  }
}

}  // namespace folio::core
