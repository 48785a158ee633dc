// Folio's error type. Errors are thrown where they are detected and printed once, in main.
// A message is one line that says what is wrong, where, and what to do about it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace folio::core {

/// Bad input, a bad file, a full disk and the like. Programs exit with code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line or a configuration is wrong. Programs exit with code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

namespace detail {

template <typename T>
decltype(auto) evaluated(T&& argument) {
  if constexpr (std::is_invocable_v<T&>) {
    return argument();
  } else {
    return std::forward<T>(argument);
  }
}

template <typename T>
using Evaluated =
    typename std::conditional_t<std::is_invocable_v<T&>, std::invoke_result<T&>, std::type_identity<T>>::type;

}  // namespace detail

/// As fmt::format, but arguments that can be called without arguments are called, and their results formatted.
template <typename... Args>
[[nodiscard]] std::string message(fmt::format_string<detail::Evaluated<Args>...> format, Args&&... args) {
  return [&](auto&&... values) {
    return fmt::vformat(format, fmt::make_format_args(values...));
  }(detail::evaluated(std::forward<Args>(args))...);
}

/// Throws Error with the message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<detail::Evaluated<Args>...> format, Args&&... args) {
  throw Error(message(format, std::forward<Args>(args)...));
}

/// Throws Error with the message unless `condition` holds. An argument that is a function is called only if it does
/// not: use this for what takes time, in a loop.
template <typename... Args>
void require(bool condition, fmt::format_string<detail::Evaluated<Args>...> format, Args&&... args) {
  if (!condition) throw Error(message(format, std::forward<Args>(args)...));
}

/// Makes text safe to show on one line: control characters and invalid UTF-8 become \xNN, and long text is shortened.
[[nodiscard]] std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace folio::core
