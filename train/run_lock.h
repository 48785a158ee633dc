// The lock on a run directory: one process at a time trains in it.
// It is the kernel's (flock on RUN/.lock), so it ends with its process, however that ends; a file left over locks
// nothing.
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
