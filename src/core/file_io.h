// Whole files, read and written. A write appears under its final name complete and synced, or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace folio::core {

/// The file's bytes. Throws Error if it cannot be read or is larger than `max_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 30U);

/// A file descriptor that is written in order; every error is thrown with the path and the system's reason.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void pad_to(size_t offset);  ///< zero bytes up to `offset`
  [[nodiscard]] size_t offset() const { return offset_; }
  void sync_and_close();

 private:
  std::filesystem::path path_;
  int fd_;
  size_t offset_ = 0;
};

/// Makes a directory's entries durable (fsync of the directory itself).
void sync_directory(const std::filesystem::path& path);

/// Runs `write` on a temporary file beside `path`, syncs it and renames it to `path`. On an error nothing is left.
void write_file_atomically(const std::filesystem::path& path, const std::function<void(OutputFile&)>& write);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace folio::core
