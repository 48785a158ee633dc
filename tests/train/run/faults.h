// Injects faults into system calls: within the scope of a Faults object, calls that change files are counted, and one
// of them fails, or the process is killed before it. faults.cpp overrides the C library's functions.
#pragma once

#include <string>
#include <vector>

namespace folio::train::test {

class Faults {
 public:
  /// Only counts. fsync is skipped: it takes milliseconds, and a kill loses no data that the kernel has.
  Faults() : Faults(0, 0) {}
  /// Makes call number `at`, counted from 1, fail with the errno `error`; with kKill, kills the process there.
  Faults(int at, int error);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  static constexpr int kKill = -1;

  /// Returns the names of the calls so far: "write", "rename", …
  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }

  /// Counts a call; returns true with errno set if it must fail.
  bool strikes(const char* call);

 private:
  int at_;
  int error_;
  std::vector<std::string> calls_;
};

}  // namespace folio::train::test
