// Reading and writing whole files. A regular file appears under its final name complete and synced, or not at all.
// Devices and pipes are written directly.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio::core {

/// Returns the bytes of a regular file. Throws Error if it cannot be read or is larger than `max_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 30U);

/// Returns all bytes of a descriptor such as stdin. Throws Error that contains `name` if there are over `max_bytes`.
[[nodiscard]] std::string read_descriptor(int fd, const std::string& name, size_t max_bytes);

/// A file written sequentially through a buffer. Errors contain the path and the system's reason. The destructor
/// discards unflushed bytes, so finish with sync_and_close().
class OutputFile {
 public:
  enum class Mode { Create, Append };

  /// Creates or truncates `path`, or opens it for appending. Throws Error if `path` is a pipe without a reader.
  explicit OutputFile(const std::filesystem::path& path, Mode mode = Mode::Create);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Writes a number in the machine's byte order, which is little-endian.
  template <typename T>
  void put(T number) {
    write(std::as_bytes(std::span(&number, 1)));
  }
  void pad_to(size_t offset);                              ///< writes zero bytes up to `offset`
  [[nodiscard]] size_t offset() const { return offset_; }  ///< bytes written since opening, including buffered
  void flush();                                            ///< writes the buffer to the file
  void sync();                                             ///< flushes, then makes the file durable (fsync)
  void sync_and_close();

 private:
  friend void write_file_atomically(const std::filesystem::path&, const std::function<void(OutputFile&)>&);
  OutputFile(int fd, std::filesystem::path shown);  ///< `shown`: path for errors. Throws Error from errno if fd < 0

  void write_out(std::span<const std::byte> bytes);
  [[noreturn]] void fail_with_reason() const;

  std::filesystem::path shown_;
  int fd_;
  size_t offset_ = 0;
  std::vector<std::byte> buffer_;
};

/// Makes a directory's entries durable (fsync of the directory itself).
void sync_directory(const std::filesystem::path& path);

/// Calls `write` with a temporary file in the directory of `path`, syncs it and renames it to `path`. Follows symbolic
/// links, and keeps the mode and, where permitted, the owner of a replaced file. Writes a device or a pipe directly.
/// Throws Error for a directory, a socket, a block device, or a pipe without a reader. Several writers of one `path`
/// are independent; the last one to finish replaces it. Removes the temporary file on an error; a killed process may
/// leave it.
void write_file_atomically(const std::filesystem::path& path, const std::function<void(OutputFile&)>& write);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Calls `write` with the path of a temporary directory next to `path`, then renames that directory to `path`. `path`
/// must not exist or must be an empty directory. Creates missing parent directories.
void write_folder_atomically(const std::filesystem::path& path,
                             const std::function<void(const std::filesystem::path&)>& write);

/// Removes temporary files left by killed processes in write_file_atomically(path). No running process may be writing
/// `path`.
void remove_leftovers(const std::filesystem::path& path);

}  // namespace folio::core
