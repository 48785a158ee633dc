#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::fuzz {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxMessage = 512;

// A temporary folder for the targets' files, in memory (/dev/shm) if possible, as they are written very often.
class ScratchFolder {
 public:
  ScratchFolder() {
    const fs::path parent = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (parent / "folio-fuzz-XXXXXX").string();
    check(::mkdtemp(name.data()) != nullptr, "cannot make a folder for the files to read");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void check_message(std::string_view message, const std::string& where) {
  bool sound = !message.empty() && message.size() <= kMaxMessage && message.find(where) != std::string_view::npos;
  for (size_t at = 0; at < message.size() && sound;) {
    const core::Utf8Char c = core::decode_utf8(message, at);
    sound = c.valid && c.code_point >= 0x20 && (c.code_point < 0x7F || c.code_point >= 0xA0);
    at += c.length;
  }
  if (sound) return;
  std::fprintf(stderr, "message: %.*s\n", static_cast<int>(message.size()), message.data());
  check(false, "an error's message is one printable line of at most 512 bytes that says where");
}

}  // namespace

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken property: %s\n", what);
  std::abort();
}

bool accepted(const std::function<void()>& read, const std::string& where) {
  try {
    read();
    return true;
  } catch (const core::Error& error) {
    check_message(error.what(), where);
    return false;
  }
}

void touch(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte b : bytes) sum += static_cast<unsigned>(b);
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

void touch(std::string_view text) { touch(std::as_bytes(std::span(text.data(), text.size()))); }

fs::path scratch_path(const std::string& name) {
  static const ScratchFolder folder;
  return name.empty() ? folder.path() : folder.path() / name;
}

fs::path scratch_file(const std::string& name, std::string_view bytes) {
  fs::path path = scratch_path(name);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  check(written && ::close(fd) == 0, "the input's file can be written");
  return path;
}

std::string file_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  check(in.good(), "a file that was written can be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace folio::fuzz
