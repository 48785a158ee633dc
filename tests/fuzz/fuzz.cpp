#include "tests/fuzz/fuzz.h"

#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "core/utf8.h"
#include "tests/core/support.h"

namespace folio::fuzz {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxMessage = 512;

void check_message(std::string_view message, const std::string& where) {
  bool sound = !message.empty() && message.size() <= kMaxMessage && message.find(where) != std::string_view::npos;
  for (size_t at = 0; at < message.size() && sound;) {
    const core::Utf8Char c = core::decode_utf8(message, at);
    sound = c.valid && c.code_point >= 0x20 && (c.code_point < 0x7F || c.code_point >= 0xA0);
    at += c.length;
  }
  if (sound) return;
  std::fprintf(stderr, "message: %.*s\n", static_cast<int>(message.size()), message.data());
  check(false, "an error's message is one printable line of at most 512 bytes that names the file");
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
  static const core::test::TempDir folder;
  return name.empty() ? folder.path() : folder.path() / name;
}

fs::path scratch_file(const std::string& name, std::string_view bytes) {
  fs::path path = scratch_path(name);
  core::test::write_bytes(path, bytes);
  return path;
}

std::string file_bytes(const fs::path& path) { return core::test::read_bytes(path); }

}  // namespace folio::fuzz
