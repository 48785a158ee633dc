// Helpers for tests: temporary folders, environment variables, expected errors, and files. The file helpers use the
// standard library instead of the tested code.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace folio::core::test {

/// A new empty folder, which the destructor removes with its contents.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "folio-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Sets an environment variable, or unsets it if `value` is null. The destructor restores the old value.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedEnv() { set(old_ ? old_->c_str() : nullptr); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  void set(const char* value) { value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1); }
  const char* name_;
  std::optional<std::string> old_;
};

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);  // rewriting an existing file is 50 times slower on file systems that flush it
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the bytes of a value as in memory (little-endian on every machine that Folio supports).
template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Returns the message of the `Thrown` that `action` throws, or an empty string if it throws none.
template <typename Thrown = Error, typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Thrown& error) {
    return error.what();
  }
  return {};
}

/// Returns the message of the `Thrown` that `action` throws. Fails the test if it throws none, or if the message has
/// several lines.
template <typename Thrown = Error, typename Action>
std::string error_of(Action&& action) {
  const std::string message = message_of<Thrown>(action);
  EXPECT_NE(message, "") << "no error was thrown";
  EXPECT_EQ(message.find('\n'), std::string::npos) << "not one line: " << message;
  return message;
}

inline ::testing::AssertionResult contains(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in \"" << text << "\"";
}

/// Expects `action` to throw a core::Error whose message contains `part`.
#define EXPECT_ERROR(action, part)                                                                  \
  do {                                                                                              \
    const std::string message_ = ::folio::core::test::error_of([&] { static_cast<void>(action); }); \
    EXPECT_TRUE(::folio::core::test::contains(message_, part));                                     \
  } while (false)

/// Expects `action` to throw a core::Error whose message contains each of `parts`.
template <typename Action>
void expect_error(Action&& action, const std::vector<std::string>& parts) {
  const std::string message = error_of(action);
  for (const std::string& part : parts) EXPECT_TRUE(contains(message, part));
}

/// Returns the names of a folder's entries.
inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

/// Runs body() in a child process with 1 GiB of address space, enough for a few hundred threads. Returns the first 256
/// bytes of body's result. Fails the test if the process crashes.
inline std::string in_little_memory(const std::function<std::string()>& body) {
  int to_parent[2];
  if (::pipe(to_parent) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child < 0) return "no child";
  if (child == 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = rlim_t{1} << 30U;
    ::setrlimit(RLIMIT_AS, &limit);
    const std::string text = body();
    const ssize_t written = ::write(to_parent[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(to_parent[1]);
  char buffer[256];
  const ssize_t n = ::read(to_parent[0], buffer, sizeof buffer);
  ::close(to_parent[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return {buffer, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

}  // namespace folio::core::test
