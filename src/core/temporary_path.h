// A temporary file or folder that disappears with the object, and with a process that a signal ends.
#pragma once

#include <cstddef>
#include <filesystem>

namespace folio::core {

/// Removes the file or folder `path` in its destructor, unless release() was called. Creates nothing.
class TemporaryPath {
 public:
  explicit TemporaryPath(std::filesystem::path path);
  ~TemporaryPath();
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// The path has its final name: there is nothing to remove.
  void release();

 private:
  std::filesystem::path path_;
  size_t slot_;  ///< in the list for signal handlers
};

/// Removes what all TemporaryPaths of the process name: files, and folders with the files in them. Async-signal-safe,
/// for handlers that end the process.
void remove_temporary_paths() noexcept;

}  // namespace folio::core
