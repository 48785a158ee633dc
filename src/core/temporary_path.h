// A temporary file or directory that is removed with the object, or when a signal ends the process.
#pragma once

#include <cstddef>
#include <filesystem>

namespace folio::core {

/// Removes the file or directory `path` in its destructor, unless release() was called. Creates nothing.
class TemporaryPath {
 public:
  explicit TemporaryPath(std::filesystem::path path);
  ~TemporaryPath();
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Keeps the file or directory, for example after it was renamed.
  void release();

 private:
  std::filesystem::path path_;
  size_t slot_;  ///< index of the slot that signal handlers read
};

/// Removes the paths of all TemporaryPaths of the process: files, and directories that contain only files.
/// Async-signal-safe, for handlers that end the process.
void remove_temporary_paths() noexcept;

}  // namespace folio::core
