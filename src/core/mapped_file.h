// A read-only memory-mapped file. Its bytes are valid for the lifetime of the MappedFile.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace folio::core {

class MappedFile {
 public:
  /// Maps the file. Throws Error if it is missing, unreadable, empty or not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  [[nodiscard]] bool contains(std::span<const std::byte> part) const;

  /// Releases the memory of whole pages in `part`, for data that has been copied. Later reads load the pages from the
  /// file again. Does nothing if `part` is outside the mapping.
  void release(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// Returns the path of the MappedFile that contains `address`, or null. Async-signal-safe, for the SIGBUS handler:
/// reading from a truncated file raises SIGBUS.
[[nodiscard]] const char* mapped_path_at(const void* address) noexcept;

}  // namespace folio::core
