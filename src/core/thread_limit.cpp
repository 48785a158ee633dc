#include "core/thread_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace folio::core {
namespace {

constexpr size_t kStay = 20;  // windows

// The beginning of a file of /proc; empty if there is none.
std::string text_of(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[256];
  const ssize_t n = ::read(file, text, sizeof text);
  ::close(file);
  return {text, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

// This process's threads that run or are ready to run, the caller among them.
size_t own_running() {
  size_t n = 0;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    const std::string stat = text_of((task.path() / "stat").c_str());
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

std::optional<size_t> free_cores() {
  constexpr int kLooks = 5;
  const auto cores = static_cast<size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  size_t most = 0;
  for (int i = 0; i < kLooks && most < cores; ++i) {
    size_t running = 0;
    if (std::sscanf(text_of("/proc/loadavg").c_str(), "%*f %*f %*f %zu/", &running) != 1 || running == 0) return {};
    const size_t others = running - std::min(running, own_running());
    most = std::max(most, cores - std::min(cores, others));
  }
  return most;
}

void ThreadLimit::start(std::optional<size_t> free) {
  now_ = std::clamp(free.value_or(most_), (most_ + 1) / 2, most_);
  windows_left_ = now_ < most_ ? kStay : 0;
}

void ThreadLimit::update(double waiting, const std::function<std::optional<size_t>()>& free) {
  constexpr double kMany = 0.4;  // with one busy process on two cores 0.6 to 1, without at most 0.15
  constexpr double kFew = 0.2;   // with as many threads as there are cores left 0.05
  constexpr size_t kMostKept = 10;
  const size_t fewest = (most_ + 1) / 2;
  const bool all = now_ == most_;
  if (windows_left_ > 0) --windows_left_;
  if (waiting > (all ? kMany : kFew) && now_ > fewest) {
    now_ -= std::clamp<size_t>(static_cast<size_t>(std::lround(waiting)), 1, now_ - fewest);
    windows_left_ = kStay;
  } else if (windows_left_ == 0 && !all) {
    const bool keeps = free().value_or(most_) <= now_ && ++n_kept_ < kMostKept;
    if (keeps) {
      windows_left_ = kStay;
    } else {
      now_ = most_;
      n_kept_ = 0;
    }
  }
}

}  // namespace folio::core
