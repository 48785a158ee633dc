// JSON parsing with limits: nesting is bounded, and repeated keys and invalid UTF-8 are errors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/error.h"

namespace folio::core {

/// Parses JSON. Throws Error that begins with `where` if the text is invalid, nests deeper than 64, repeats a key, or
/// has more than four million values and keys.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& where);

/// Returns a parser's message, without the library's name of the error, "[json.exception.parse_error.101] ".
[[nodiscard]] std::string message_of(const nlohmann::json::exception& error);

using OrderedJson = nlohmann::ordered_json;

/// Parses JSON like parse_json(), but keeps the order of keys. An object may have at most 1,024 keys, since lookups are
/// linear. Skips the key `leave_out` of the outermost object and its value; empty: skips nothing.
[[nodiscard]] OrderedJson parse_ordered_json(std::string_view text, const std::string& where,
                                             std::string_view leave_out = {});

/// Returns the value at `key`. Throws Error that contains `where` and the key if the key is missing.
[[nodiscard]] const nlohmann::json& json_at(const nlohmann::json& object, const std::string& key,
                                            const std::string& where);

/// Returns the list at `key`. Throws Error that contains `where` and the key if it is missing or not a list.
[[nodiscard]] const nlohmann::json& json_list(const nlohmann::json& object, const std::string& key,
                                              const std::string& where);

/// Returns the value at `key` as T; copies an object or a list. Throws Error that contains `where` and the key if it is
/// missing or has another type.
template <typename T>
[[nodiscard]] T json_get(const nlohmann::json& object, const std::string& key, const std::string& where) {
  const nlohmann::json& value = json_at(object, key, where);
  try {
    if constexpr (std::is_same_v<T, bool>) require(value.is_boolean(), "{}: \"{}\" is not true or false", where, key);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      require(value.is_number_integer(), "{}: \"{}\" is not an integer", where, key);
      const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.template get<uint64_t>())
                                                   : std::in_range<T>(value.template get<int64_t>());
      require(fits, "{}: \"{}\" is {}, which is out of range", where, key, [&] { return value.dump(); });
    }
    if constexpr (std::is_floating_point_v<T>) {
      require(value.is_number(), "{}: \"{}\" is not a number", where, key);
    }
    return value.get<T>();
  } catch (const nlohmann::json::exception&) {
    fail("{}: the key \"{}\" has a value of the wrong type", where, key);
  }
}

}  // namespace folio::core
