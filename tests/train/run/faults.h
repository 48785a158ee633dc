// Injects faults into system calls. Within the scope of a Faults object, calls that change files are counted, and one
// of them fails, or the process is killed before it. faults.cpp overrides the C library's functions.
#pragma once

#include <string>
#include <vector>

namespace folio::train::test {

class Faults {
 public:
  /// Only counts calls; none fails. While a thread has a Faults object, its fsync() does nothing, to save
  /// milliseconds per call: killing only the process, not the machine, loses no written data.
  Faults() : Faults(0, 0) {}
  /// Makes call number `at`, counted from 1, fail with `error` as errno. With kKill, kills the process instead.
  Faults(int at, int error);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  static constexpr int kKill = -1;

  /// Returns the names of the calls so far, such as "write" or "rename".
  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }

  /// Counts a call. Returns true, with errno set, if the call must fail.
  bool strikes(const char* call);

 private:
  int at_;
  int error_;
  std::vector<std::string> calls_;
};

}  // namespace folio::train::test
