// String formats of the keyword `format` in JSON schemas.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace folio::infer::forms {

/// Returns a regular expression (regex.h) for a format; nullopt if it is not supported. Supported formats: date, time
/// and date-time (RFC 3339, with capital T and Z, without leap seconds), uuid, email (RFC 5321, without quoted strings
/// and IP addresses), ipv4, ipv6 and uri (RFC 3986). They match only ASCII characters that JSON doesn't escape.
/// `counted`: for a limit on the length; without URIs of IPv6 hosts, which would need ten times as many states.
[[nodiscard]] std::optional<std::string> format_regex(std::string_view format, bool counted = false);

}  // namespace folio::infer::forms
