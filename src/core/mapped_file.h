// A file mapped read-only. The bytes are valid as long as the MappedFile.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace folio::core {

class MappedFile {
 public:
  /// Throws Error if the file is missing, unreadable, empty or not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  [[nodiscard]] bool contains(std::span<const std::byte> part) const;

  /// Releases the memory of the whole pages in `part`, for parts that have been copied. Later reads load the pages from
  /// the file again. A part outside the mapping is ignored.
  void release(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace folio::core
