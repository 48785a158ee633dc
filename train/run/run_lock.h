// The lock on a run directory: one process at a time trains in it.
// It is a flock on RUN/.lock, which the kernel releases when the process ends for any reason. A .lock file that is left
// over locks nothing.
#pragma once

#include <filesystem>

namespace folio::train {

class RunLock {
 public:
  /// Takes the lock of an existing directory. Throws core::Error that names the process that holds it.
  explicit RunLock(const std::filesystem::path& run);
  ~RunLock();
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace folio::train
