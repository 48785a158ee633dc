#include "core/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace folio::core {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16U;

// ".NAME.tmp-"; the process's number follows.
std::string temporary_prefix(const fs::path& path) { return fmt::format(".{}.tmp-", path.filename().string()); }

}  // namespace

std::string read_text_file(const fs::path& path, size_t max_bytes) {
  std::error_code error;
  require(fs::is_regular_file(path, error), "cannot read {}: {}", path.string(),
          fs::exists(path, error) ? "it is not a regular file" : "no such file");
  const auto size = fs::file_size(path, error);
  require(!error, "cannot read {}: {}", path.string(), error.message());
  require(size <= max_bytes, "{} has {} bytes, more than the {} that are read here", path.string(), size, max_bytes);
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  require(in.good() || size == 0, "cannot read {}: {}", path.string(), std::strerror(errno));
  return text;
}

OutputFile::OutputFile(const fs::path& path, Mode mode, const fs::path& shown)
    : shown_(shown.empty() ? path : shown),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::Append ? O_APPEND : O_TRUNC), 0644)) {
  if (fd_ < 0) fail_with_reason();
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::fail_with_reason() const { fail("cannot write {}: {}", shown_.string(), std::strerror(errno)); }

void OutputFile::write(std::span<const std::byte> bytes) {
  offset_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_out(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void OutputFile::write_out(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_reason();
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::pad_to(size_t offset) {
  static constexpr std::array<std::byte, 256> kZeros{};
  while (offset_ < offset) write(std::span(kZeros).first(std::min(kZeros.size(), offset - offset_)));
}

void OutputFile::flush() {
  write_out(buffer_);
  buffer_.clear();
}

void OutputFile::sync() {
  flush();
  if (::fsync(fd_) != 0) fail_with_reason();
}

void OutputFile::sync_and_close() {
  sync();
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail_with_reason();
}

void sync_directory(const fs::path& path) {
  const fs::path directory = path.empty() ? "." : path;
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("cannot open the folder {}: {}", directory.string(), std::strerror(errno));
  const int synced = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Some file systems cannot sync a directory and return EINVAL; nothing more can be done there.
  if (synced != 0 && error != EINVAL) fail("cannot sync the folder {}: {}", directory.string(), std::strerror(error));
}

void write_file_atomically(const fs::path& path, const std::function<void(OutputFile&)>& write) {
  const fs::path temporary = path.parent_path() / (temporary_prefix(path) + std::to_string(::getpid()));
  try {
    OutputFile file(temporary, OutputFile::Mode::Create, path);
    write(file);
    file.sync_and_close();
    fs::rename(temporary, path);
    sync_directory(path.parent_path());
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    fail("cannot write {}: {}", path.string(), error.code().message());
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, [&](OutputFile& file) { file.write(text); });
}

void remove_leftovers(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string prefix = temporary_prefix(path);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() == prefix.size() ||
        name.find_first_not_of("0123456789", prefix.size()) != std::string::npos)
      continue;
    fs::remove(entry.path(), error);
    require(!error, "cannot remove {}: {}", entry.path().string(), error.message());
  }
}

}  // namespace folio::core
