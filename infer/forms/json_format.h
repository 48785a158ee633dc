// String formats of the keyword `format` in JSON schemas.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace folio::infer::forms {

/// Returns a regular expression (regex.h) for a format; nullopt if it is not supported. Supported are date, time and
/// date-time (RFC 3339, in capital letters, without leap seconds), uuid, email (a dot-atom at a domain of RFC 5321),
/// ipv4, ipv6 and uri (both RFC 3986). All use only ASCII characters that JSON doesn't escape.
[[nodiscard]] std::optional<std::string> format_regex(std::string_view format);

}  // namespace folio::infer::forms
