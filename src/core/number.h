// Parses numbers in text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace folio::core {

/// Parses the whole text as a number; spaces and a plus sign are not allowed. Returns nullopt if it is invalid or out
/// of range for T. `base` only applies to integers.
template <class T>
[[nodiscard]] std::optional<T> number_of(std::string_view text, int base = 10) {
  T value = 0;
  const char* const end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<T>) {
    read = std::from_chars(text.data(), end, value);
  } else {
    read = std::from_chars(text.data(), end, value, base);
  }
  return read.ec == std::errc() && read.ptr == end ? std::optional<T>(value) : std::nullopt;
}

}  // namespace folio::core
