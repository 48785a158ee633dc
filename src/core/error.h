// Folio's error type. Errors are thrown where they are detected and printed once, in main. A message is one line that
// states what is wrong, where, and how to fix it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace folio::core {

/// A failure at run time, such as a bad file or a full disk. Programs exit with code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An invalid command line or configuration. Programs exit with code 2.
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

/// Formats like fmt::format. An argument that can be called without arguments is called, and its result is formatted.
template <typename... Args>
[[nodiscard]] std::string message(fmt::format_string<detail::Evaluated<Args>...> format, Args&&... args) {
  return [&](auto&&... values) {
    return fmt::vformat(format, fmt::make_format_args(values...));
  }(detail::evaluated(std::forward<Args>(args))...);
}

/// Throws Error with the formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<detail::Evaluated<Args>...> format, Args&&... args) {
  throw Error(message(format, std::forward<Args>(args)...));
}

/// Throws Error with the formatted message unless `condition` holds. Callable arguments are only called on failure, so
/// wrap an expensive argument in a lambda.
template <typename... Args>
void require(bool condition, fmt::format_string<detail::Evaluated<Args>...> format, Args&&... args) {
  if (!condition) throw Error(message(format, std::forward<Args>(args)...));
}

/// Returns text escaped for one line: control characters and invalid UTF-8 become \xNN. Stops once the result has
/// `max_bytes` bytes or more, and then appends "…" if text remains.
[[nodiscard]] std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace folio::core
