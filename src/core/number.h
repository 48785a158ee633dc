// Parses numbers in text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace folio::core {

/// Returns the number that the whole text spells, without spaces or a plus sign. Returns nullopt if it is invalid or
/// out of range for T. `base` only applies to integers.
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
