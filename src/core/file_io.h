// Reading and writing whole files. A file appears under its final name complete and synced, or not at all. Devices and
// pipes are written directly.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio::core {

/// The bytes of a regular file. Throws Error if it cannot be read or is larger than `max_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 30U);

/// What a descriptor gives until it ends, such as stdin's. Throws Error for more than `max_bytes`; `name` is for it.
[[nodiscard]] std::string read_descriptor(int fd, const std::string& name, size_t max_bytes);

/// A file that is written sequentially through a buffer. Errors contain the path and the system's reason. The
/// destructor discards what was not flushed: end with sync_and_close().
class OutputFile {
 public:
  enum class Mode { Create, Append };

  /// Opens `path` to write it anew or to append. Does not wait for the reader of a pipe.
  explicit OutputFile(const std::filesystem::path& path, Mode mode = Mode::Create);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void pad_to(size_t offset);                              ///< zero bytes up to `offset`
  [[nodiscard]] size_t offset() const { return offset_; }  ///< bytes written since it was opened
  void flush();                                            ///< writes the buffer to the file
  void sync();                                             ///< flushes and makes the file durable (fsync)
  void sync_and_close();

 private:
  friend void write_file_atomically(const std::filesystem::path&, const std::function<void(OutputFile&)>&);
  OutputFile(int fd, std::filesystem::path shown);  ///< fails if `fd` is negative, with the reason in errno

  void write_out(std::span<const std::byte> bytes);
  [[noreturn]] void fail_with_reason() const;

  std::filesystem::path shown_;
  int fd_;
  size_t offset_ = 0;
  std::vector<std::byte> buffer_;
};

/// Makes a directory's entries durable (fsync of the directory itself).
void sync_directory(const std::filesystem::path& path);

/// Runs `write` on a temporary file beside `path`, syncs it and renames it to `path`. A link is followed: the file that
/// it names is replaced, or made. Mode and, as far as permitted, owner of a file that is replaced stay. A device or a
/// pipe that `path` names is written directly; a folder, a socket or a block device is an error, and so is a pipe that
/// no process reads. On an error the temporary file is removed; a process that is killed may leave it.
void write_file_atomically(const std::filesystem::path& path, const std::function<void(OutputFile&)>& write);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Runs `write` on a temporary folder beside `path` and renames it to `path`, where nothing or an empty folder may be.
/// Makes the folders above `path` that are missing.
void write_folder_atomically(const std::filesystem::path& path,
                             const std::function<void(const std::filesystem::path&)>& write);

/// Removes the temporary files that killed processes left behind in write_file_atomically(path). Call it only if no
/// running process writes `path`.
void remove_leftovers(const std::filesystem::path& path);

}  // namespace folio::core
