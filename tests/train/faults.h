// Failing and dying system calls, for tests: inside of a Faults scope, the calls that change files are counted, and one
// of them is refused, or the process is killed as it begins. faults.cpp stands before the C library's functions.
#pragma once

#include <string>
#include <vector>

namespace folio::train::test {

class Faults {
 public:
  /// Only counts. fsync is answered and not done: a kill loses nothing that the kernel has, and it costs milliseconds.
  Faults() : Faults(0, 0) {}
  /// The call number `at`, from 1, fails with the errno `error`; with kKill the process is killed there.
  Faults(int at, int error);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  static constexpr int kKill = -1;

  /// Names of the calls so far: "write", "rename", …
  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }

  /// Counts a call; true if it is to fail, with errno set.
  bool strikes(const char* call);

 private:
  int at_;
  int error_;
  std::vector<std::string> calls_;
};

}  // namespace folio::train::test
