// The one error type of Folio. Thrown where the fact is known, printed once, in main.
// A message is one line that says what is wrong, where, and what to do about it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace folio::core {

/// Something failed: bad input, a bad file, a full disk. Programs exit with code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line or a configuration is wrong. Programs exit with code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with a message formatted as by fmt::format.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with the formatted message unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Text made safe to show on one line: control characters and invalid UTF-8 become \xNN, long text is cut.
[[nodiscard]] std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace folio::core
