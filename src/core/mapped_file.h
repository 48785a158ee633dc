// A file, mapped read-only. The bytes live as long as the MappedFile.
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

  /// Gives the memory of the whole pages in `part` back; what is read there again comes from the file again. For parts
  /// of which there is a copy now. Parts outside of the mapping are left alone.
  void release(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace folio::core
