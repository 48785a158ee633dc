// Lists this process's threads, and which of them are asleep, from /proc.
#pragma once

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

namespace folio::core::test {

inline std::set<std::string> threads_of_process() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    threads.insert(entry.path().filename());
  return threads;
}

/// Returns true if the thread waits in a system call, false if it runs or has ended.
inline bool sleeps(const std::string& thread) {
  std::ifstream file("/proc/self/task/" + thread + "/stat");
  const std::string line((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = line.rfind(") ");  // the name may contain any characters
  return name_end != std::string::npos && line[name_end + 2] == 'S';
}

inline void await_sleep(const std::set<std::string>& threads) {
  for (const std::string& thread : threads) {
    while (!sleeps(thread)) std::this_thread::yield();
  }
}

}  // namespace folio::core::test
