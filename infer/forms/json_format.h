// The formats of strings that a JSON schema can name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace folio::infer::forms {

/// The texts of a format as a regular expression (regex.h); nothing if the format is not known. Known are date, time
/// and date-time (RFC 3339, with capital letters and without leap seconds), uuid, email (a dot-atom at a domain of RFC
/// 5321), ipv4, ipv6 (as in RFC 3986) and uri (RFC 3986). All are of ASCII characters that JSON writes as they are.
[[nodiscard]] std::optional<std::string> format_regex(std::string_view format);

}  // namespace folio::infer::forms
