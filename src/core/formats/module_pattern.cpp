#include "core/formats/module_pattern.h"

#include <regex.h>

#include <cctype>

#include "core/error.h"

namespace folio::core {
namespace {

constexpr size_t kLongest = 512;  // bytes of a pattern, whose alternatives may use quadratic memory
constexpr int kDeepest = 4;       // nesting of groups, each of which doubles its contents if it is followed by "+"

// Returns the POSIX extended expression for Python's expression `key`. Throws Error for syntax that differs.
std::string posix_of(std::string_view key, const std::string& where) {
  std::string posix;
  size_t at = 0;
  int depth = 0;
  bool can_repeat = false;  // a repetition may follow
  const auto peek = [&](size_t i) { return i < key.size() ? key[i] : '\0'; };
  const auto check = [&](bool is_supported) {
    require(
        is_supported, "{}: the pattern {} has unsupported syntax at character {}; spell out the module names", where,
        [&] { return printable(key, 80); }, at + 1);
  };
  for (; at < key.size(); ++at) {
    const char c = key[at];
    std::string_view part = key.substr(at, 1);
    check(c != '{' && c != '\0' && at < kLongest);
    if (c == '(') {
      check(++depth <= kDeepest && (peek(at + 1) != '?' || peek(at + 2) == ':'));
      if (peek(at + 1) == '?') at += 2;
    } else if (c == ')') {
      check(--depth >= 0);
    } else if (c == '[') {  // special characters are literal in a class, and so is a "]" at its beginning
      const size_t end = key.find(']', at + (peek(at + 1) == '^' ? 3 : 2));
      part = key.substr(at, end == key.npos ? end : end + 1 - at);
      check(end != key.npos && part.find('\\') == key.npos);
      for (const char* special : {"[:", "[.", "[="}) check(part.find(special, 1) == key.npos);
      at += part.size() - 1;
    } else if (c == '\\') {
      const char escaped = peek(++at);
      const bool is_letter = std::isalnum(static_cast<unsigned char>(escaped)) != 0 || escaped == '_';
      check(escaped == 'd' || escaped == 'w' || (!is_letter && escaped != '\0'));
      part = escaped == 'd' ? "[0-9]" : escaped == 'w' ? "[A-Za-z0-9_]" : escaped == '^' ? "\\^" : "";
      if (part.empty()) posix += fmt::format("[{}]", escaped);  // "\\<" and others would be operators
    } else if (c == '*' || c == '+' || c == '?') {
      check(can_repeat);
    }
    posix += part;
    can_repeat = std::string_view("(|^$*+?").find(c) == std::string_view::npos;
  }
  check(depth == 0);
  return posix;
}

}  // namespace

bool names_module(std::string_view key, std::string_view module, const std::string& where) {
  regex_t regex;
  const std::string posix = fmt::format("^(.*\\.)?({})$", posix_of(key, where));
  require(::regcomp(&regex, posix.c_str(), REG_EXTENDED | REG_NOSUB) == 0, "{}: the pattern {} is invalid", where,
          [&] { return printable(key, 80); });
  const bool matches = ::regexec(&regex, std::string(module).c_str(), 0, nullptr, 0) == 0;
  ::regfree(&regex);
  return matches;
}

}  // namespace folio::core
