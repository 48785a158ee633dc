#include "infer/forms/json_format.h"

#include <fmt/format.h>

namespace folio::infer::forms {
namespace {

// Returns a regular expression for dates in the years 0001 to 9999, with February 29 only in leap years.
std::string date() {
  const std::string year = R"((?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9]))";
  const std::string fours = R"((?:0[48]|[2468][048]|[13579][26]))";
  const std::string days = R"((?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|)"
                           R"(02-(?:0[1-9]|1\d|2[0-8])))";
  return fmt::format(R"((?:{}-{}|(?:\d\d{}|{}00)-02-29))", year, days, fours, fours);
}

std::string time() {
  const std::string minutes = R"((?:[01]\d|2[0-3]):[0-5]\d)";
  return fmt::format(R"({}:[0-5]\d(?:\.\d+)?(?:Z|[+-]{}))", minutes, minutes);
}

std::string ipv4() {
  const std::string byte = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  return fmt::format(R"({0}\.{0}\.{0}\.{0})", byte);
}

// Returns a regular expression for IPv6 addresses, as in RFC 3986, appendix A.
std::string ipv6() {
  const std::string h16 = "[0-9A-Fa-f]{1,4}";
  const std::string ls32 = fmt::format("(?:{0}:{0}|{1})", h16, ipv4());
  std::string all = fmt::format("(?:(?:{}:){{6}}{}", h16, ls32);
  for (int before = 0; before <= 7; ++before) {  // at most this many groups before "::"
    const int after = 5 - before;                // at most this many groups between "::" and the last 32 bits
    all += before == 0 ? "|::" : fmt::format("|(?:(?:{0}:){{0,{1}}}{0})?::", h16, before - 1);
    all += after >= 0 ? fmt::format("(?:{}:){{{}}}{}", h16, after, ls32) : after == -1 ? h16 : "";
  }
  return all + ")";
}

std::string uri(bool has_ipv6) {
  const std::string escape = "%[0-9A-Fa-f]{2}";
  const std::string plain = "A-Za-z0-9._~!$&'()*+,;=-";  // for use inside a character class
  const std::string pchar = fmt::format("(?:[:@{}]|{})", plain, escape);
  const std::string user = fmt::format("(?:(?:[:{}]|{})*@)?", plain, escape);
  const std::string host =
      fmt::format("(?:{}(?:[{}]|{})*)", has_ipv6 ? fmt::format(R"(\[{}\]|)", ipv6()) : "", plain, escape);
  const std::string rest = fmt::format("(?:[:@/?{}]|{})*", plain, escape);
  return fmt::format(R"([A-Za-z][A-Za-z0-9+.-]*:(?://{0}{1}(?::\d*)?(?:/{2}*)*|/(?:{2}+(?:/{2}*)*)?|{2}+(?:/{2}*)*|))"
                     R"((?:\?{3})?(?:#{3})?)",
                     user, host, pchar, rest);
}

std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return fmt::format(R"({0}(?:\.{0})*@{1}(?:\.{1})*)", atom, label);
}

}  // namespace

std::optional<std::string> format_regex(std::string_view format, bool counted) {
  if (format == "date") return date();
  if (format == "time") return time();
  if (format == "date-time") return date() + "T" + time();
  if (format == "uuid") return "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
  if (format == "email") return email();
  if (format == "ipv4") return ipv4();
  if (format == "ipv6") return ipv6();
  if (format == "uri") return uri(!counted);
  return {};
}

}  // namespace folio::infer::forms
