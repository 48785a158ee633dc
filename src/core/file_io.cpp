#include "core/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/random.h"
#include "core/temporary_path.h"

namespace folio::core {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16U;

// Returns ".NAME.tmp-", to which callers append a number. Truncates NAME, since file names have a maximum length.
std::string temporary_prefix(const fs::path& path) {
  return fmt::format(".{}.tmp-", path.filename().string().substr(0, 200));
}

// Returns a new name in the directory of `path`. Unlike a process ID, its random number is also unique among threads,
// and among containers and hosts that share the directory.
fs::path temporary_beside(const fs::path& path) {
  return path.parent_path() / (temporary_prefix(path) + std::to_string(system_random()));
}

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  fail("cannot write {}: {}{}", path.string(), reason_of(error), error == ENOENT ? "; create its folder first" : "");
}

// Returns the path with symbolic links followed. The target need not exist.
fs::path followed(const fs::path& path) {
  fs::path at = path.has_filename() ? path : path.parent_path();
  std::error_code error;
  for (int n = 0; fs::is_symlink(fs::symlink_status(at, error)); ++n) {
    const fs::path target = fs::read_symlink(at, error);
    if (error || n == 40) fail_to_write(path, error ? error.value() : ELOOP);
    at = at.parent_path() / target;
  }
  return at;
}

std::optional<struct stat> status_of_output(const fs::path& path) {
  require_path(path);
  require(!path.empty(), "the name of the output file is empty");
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT) fail_to_write(path, errno);
  return {};
}

bool is_same_file(const fs::path& path, const struct stat& other) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_dev == other.st_dev && status.st_ino == other.st_ino;
}

// Opens `path` for writing. Fails immediately (ENXIO) for a pipe without a reader, instead of waiting for one.
int open_without_waiting(const fs::path& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0644);
  if (fd < 0) return fd;
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

int open_device(const fs::path& path, mode_t mode) {
  require(S_ISCHR(mode) || S_ISFIFO(mode), "cannot write {}: it is {}; name a file", path.string(), kind_of_file(mode));
  const int fd = open_without_waiting(path, 0);
  if (fd < 0 && errno == ENXIO && S_ISFIFO(mode)) {
    fail("cannot write {}: it is a pipe that no process reads; start the reader first", path.string());
  }
  return fd;
}

constexpr mode_t kPermissions = 0777;

// Sets the mode, owner and group of `path` to those in `from`. Ignores failures, since only root may set any owner.
void keep_mode_and_owner(const fs::path& path, const struct stat& from) {
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0) return;
  if (now.st_gid != from.st_gid) static_cast<void>(!::chown(path.c_str(), static_cast<uid_t>(-1), from.st_gid));
  if (now.st_uid != from.st_uid) static_cast<void>(!::chown(path.c_str(), from.st_uid, static_cast<gid_t>(-1)));
  static_cast<void>(!::chmod(path.c_str(), from.st_mode & kPermissions));
}

void rename_to(const fs::path& from, const fs::path& to, const fs::path& shown) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_to_write(shown, error.value());
}

}  // namespace

std::string read_text_file(const fs::path& path, size_t max_bytes) {
  require_path(path);
  const auto check = [&](bool fine) {
    if (!fine) fail("cannot read {}: {}", path.string(), errno == ENOENT ? "no such file" : reason_of(errno));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a pipe's writer
  check(fd >= 0);
  const struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat status {};
  check(::fstat(fd, &status) == 0);
  require(S_ISREG(status.st_mode), "cannot read {}: it is not a regular file but {}; name a file", path.string(),
          kind_of_file(status.st_mode));
  const auto size = static_cast<size_t>(status.st_size);
  require(size <= max_bytes, "{} has {} bytes, more than the limit of {}", path.string(), size, max_bytes);
  std::string text(size, '\0');
  for (size_t at = 0; at < size;) {
    const ssize_t n = ::read(fd, text.data() + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    check(n >= 0);
    require(n > 0, "cannot read {}: it shrank while it was read; try again when nothing writes to it", path.string());
    at += static_cast<size_t>(n);
  }
  return text;
}

std::string read_descriptor(int fd, const std::string& name, size_t max_bytes) {
  std::string text;
  std::array<char, kBufferBytes> block{};
  for (;;) {
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    require(n >= 0, "cannot read {}: {}", name, std::strerror(errno));
    if (n == 0) return text;
    text.append(block.data(), static_cast<size_t>(n));
    require(text.size() <= max_bytes, "{} has more than the limit of {} bytes; provide less input", name, max_bytes);
  }
}

OutputFile::OutputFile(int fd, fs::path shown) : shown_(std::move(shown)), fd_(fd) {
  if (fd_ < 0) fail_with_reason();
  buffer_.reserve(kBufferBytes);
}

OutputFile::OutputFile(const fs::path& path, Mode mode)
    : OutputFile(
          (require_path(path), open_without_waiting(path, O_CREAT | (mode == Mode::Append ? O_APPEND : O_TRUNC))),
          path) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::fail_with_reason() const { fail_to_write(shown_, errno); }

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
  if (::fsync(fd_) != 0 && errno != EINVAL) fail_with_reason();  // EINVAL: a device, which cannot be synced
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
  // Some file systems cannot sync a directory and return EINVAL, which is ignored.
  if (synced != 0 && error != EINVAL) fail("cannot sync the folder {}: {}", directory.string(), std::strerror(error));
}

void write_file_atomically(const fs::path& path, const std::function<void(OutputFile&)>& write) {
  const auto write_to = [&](int fd) {  // throws Error from errno if fd < 0
    OutputFile file(fd, path);
    write(file);
    file.sync_and_close();
  };
  const auto old = status_of_output(path);
  if (old && !S_ISREG(old->st_mode)) return write_to(open_device(path, old->st_mode));
  const fs::path target = followed(path);
  if (old && !is_same_file(target, *old)) {  // `path` is a /proc link to a deleted file, which can't be replaced
    return write_to(open_without_waiting(path, O_TRUNC));
  }
  TemporaryPath temporary(temporary_beside(target));
  const mode_t mode = old ? old->st_mode & kPermissions : 0644;
  const int fd = ::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (old && fd >= 0) keep_mode_and_owner(temporary.path(), *old);
  write_to(fd);
  rename_to(temporary.path(), target, path);
  temporary.release();
  sync_directory(target.parent_path());
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, [&](OutputFile& file) { file.write(text); });
}

void write_folder_atomically(const fs::path& path, const std::function<void(const fs::path&)>& write) {
  const auto old = status_of_output(path);
  std::error_code error;
  require(!old || (S_ISDIR(old->st_mode) && fs::is_empty(path, error)), "{} already exists; choose another name",
          path.string());
  const fs::path target = followed(path);
  if (target.has_parent_path()) make_folders(target.parent_path());
  TemporaryPath temporary(temporary_beside(target));
  if (::mkdir(temporary.path().c_str(), 0777) != 0) fail_to_write(path, errno);
  if (old) keep_mode_and_owner(temporary.path(), *old);
  write(temporary.path());
  sync_directory(temporary.path());
  rename_to(temporary.path(), target, path);
  temporary.release();
  sync_directory(target.parent_path());
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
