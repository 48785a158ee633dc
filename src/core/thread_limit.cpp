#include "core/thread_limit.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace folio::core {
namespace {

constexpr size_t kStay = 20;  // number of measurement windows (0.1 s each) until more threads are tried

// Returns the first 256 bytes of a file in /proc, or "" if it is missing.
std::string text_of(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[256];
  const ssize_t n = ::read(file, text, sizeof text);
  ::close(file);
  return {text, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

// Returns the number of this process's threads that are running or runnable, including the caller.
size_t own_running() {
  size_t n = 0;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator task("/proc/self/task", error); task != end; task.increment(error)) {
    const std::string stat = text_of((task->path() / "stat").c_str());
    const size_t name_end = stat.rfind(')');
    n += name_end != std::string::npos && stat.compare(name_end, 3, ") R") == 0 ? 1 : 0;
  }
  return std::max<size_t>(n, 1);
}

}  // namespace

std::chrono::nanoseconds run_delay() {
  unsigned long long ran = 0;
  long long waited = 0;
  const bool counts = std::sscanf(text_of("/proc/thread-self/schedstat").c_str(), "%llu %lld", &ran, &waited) == 2;
  return std::chrono::nanoseconds(counts ? waited : 0);
}

std::optional<size_t> free_cores(size_t enough) {
  constexpr int kLooks = 5;
  const auto cores = static_cast<size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || static_cast<size_t>(CPU_COUNT(&allowed)) < cores) {
    return {};
  }
  size_t most = 0;
  for (int i = 0; i < kLooks && most < std::min(cores, enough); ++i) {
    size_t running = 0;
    if (std::sscanf(text_of("/proc/loadavg").c_str(), "%*f %*f %*f %zu/", &running) != 1 || running == 0) return {};
    const size_t others = running - std::min(running, own_running());
    most = std::max(most, cores - std::min(cores, others));
  }
  return most;
}

void ThreadLimit::start(std::optional<size_t> free) {
  now_ = uses_free_cores_ ? std::clamp(free.value_or(most_), (most_ + 1) / 2, most_) : most_;
  windows_left_ = now_ < most_ ? kStay : 0;
  n_kept_ = 0;
  tries_all_ = false;
}

void ThreadLimit::update(double waiting, const std::function<std::optional<size_t>()>& free) {
  constexpr double kFew = 0.2;  // limit of `waiting` if some threads are unused; about 0.05 is usual with free cores
  constexpr size_t kMostKept = 10;
  const size_t fewest = (most_ + 1) / 2;
  const bool all = now_ == most_;
  const bool wait = waiting > (all ? kMany : kFew);
  if (std::exchange(tries_all_, false) && !wait) uses_free_cores_ = false;
  if (windows_left_ > 0) --windows_left_;
  if (wait && now_ > fewest) {
    now_ -= std::clamp<size_t>(static_cast<size_t>(std::lround(waiting)), 1, now_ - fewest);
    windows_left_ = kStay;
    n_kept_ = 0;
  } else if (windows_left_ == 0 && !all) {
    const bool seems_free = !uses_free_cores_ || free().value_or(most_) > now_;
    if (seems_free || ++n_kept_ == kMostKept) {
      now_ = most_;
      tries_all_ = !seems_free;
    } else {
      windows_left_ = kStay;
    }
  }
}

}  // namespace folio::core
