// Implements Python's printf-style formatting: format % values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

struct Conversion {
  std::string flags;
  int64_t width = 0;
  int64_t precision = -1;
  char kind = 's';

  [[nodiscard]] bool has(char flag) const { return flags.find(flag) != std::string::npos; }
};

class Formatter {
 public:
  Formatter(Session& session, TextView format, const Value& values)
      : session_(session), format_(format), values_(values) {}

  Text run() {
    while (at_ < format_.size()) {
      size_t percent = at_;
      while (percent < format_.size() && code_of(format_[percent]) != U'%') ++percent;
      session_.append(text_, format_.substr(at_, percent - at_));
      at_ = percent + 1;
      if (percent < format_.size()) convert();
    }
    // Python ignores unused values if `values_` could be a mapping.
    const bool may_stay =
        values_.dict() != nullptr || values_.is_undefined() || (values_.list() != nullptr && !is_tuple());
    if (!may_stay && next_ < (is_tuple() ? values_.list()->items.size() : 1)) {
      core::fail("not all arguments converted during string formatting");
    }
    return std::move(text_);
  }

 private:
  [[nodiscard]] bool is_tuple() const { return values_.list() != nullptr && values_.list()->is_tuple; }

  [[nodiscard]] char peek() const {
    if (at_ >= format_.size()) core::fail("incomplete format");
    const char32_t code = code_of(format_[at_]);
    return code < 0x80 ? static_cast<char>(code) : '\0';
  }

  Value next() {
    if (is_tuple()) {
      if (next_ >= values_.list()->items.size()) core::fail("not enough arguments for format string");
      return values_.list()->items[next_++];
    }
    if (next_++ > 0) core::fail("not enough arguments for format string");
    return values_;
  }

  // Reads a width or precision: digits, or "*" for the next value.
  int64_t count() {
    if (peek() == '*') {
      ++at_;
      const Value value = next();
      return integer(&value, 0);
    }
    int64_t n = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      n = n * 10 + (peek() - '0');
      if (n > static_cast<int64_t>(kMaxText)) core::fail("a string has more than {} characters", kMaxText);
    }
    return n;
  }

  void convert() {
    Conversion c;
    std::optional<Value> named;
    if (peek() == '(') {
      const size_t begin = ++at_;
      for (int depth = 1; depth > 0; ++at_) depth += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
      if (values_.dict() == nullptr) core::fail("format requires a mapping");
      const Value key = session_.text(Text(format_.substr(begin, at_ - 1 - begin)));
      const Value* found = find_key(session_, *values_.dict(), key);
      if (found == nullptr) core::fail("the key {} is missing", core::printable(to_utf8(*key.text())));
      named = *found;
    }
    while (std::string_view("-+ #0").find(peek()) != std::string_view::npos) c.flags += peek(), ++at_;
    c.width = count();
    if (c.width < 0) {
      c.flags += '-';
      c.width = -c.width;
    }
    if (peek() == '.') {
      ++at_;
      c.precision = std::max<int64_t>(0, count());
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    c.kind = peek();
    ++at_;
    if (c.kind == '%') return session_.append(text_, U"%");
    const Value value = named ? *named : next();
    if (std::string_view("srac").find(c.kind) != std::string_view::npos) return add(c, worded(c, value), 0);
    const std::string digits = numeric(c, value);
    add(c, from_utf8(digits), digits[0] == '-' || digits[0] == '+' || digits[0] == ' ' ? 1 : 0);
  }

  Text worded(const Conversion& c, const Value& value) {
    Text text;
    if (c.kind == 'c') {
      if (value.text() != nullptr && value.text()->size() == 1) return *value.text();
      const int64_t code = value.text() != nullptr ? -1 : integer(&value, 0);
      if (code < 0 || code > 0x10FFFF) core::fail("%c requires an int or a char");
      return Text(1, static_cast<char32_t>(code));
    }
    write(session_, text, value, c.kind != 's');
    if (c.kind == 'a') text = escaped(text);
    if (c.precision >= 0 && static_cast<size_t>(c.precision) < text.size())
      text.resize(static_cast<size_t>(c.precision));
    return text;
  }

  // Escapes non-ASCII characters, as Python's ascii() does after repr().
  static Text escaped(const Text& text) {
    Text result;
    for (const char32_t c : text) {
      result += code_of(c) < 0x80 ? Text(1, c) : from_utf8(python_escape(code_of(c)), c & kFromMessage);
    }
    return result;
  }

  static std::string numeric(const Conversion& c, const Value& value) {
    if (!number(value)) core::fail("%{} format: a number is required, not '{}'", c.kind, type_name(value));
    const char* const plus = c.has('+') ? "+" : c.has(' ') ? " " : "";
    const bool alternate = c.has('#');
    if (c.precision > 1000) core::fail("a number has more than 1000 digits");
    if (std::string_view("eEfFgG").find(c.kind) != std::string_view::npos) {
      const std::string format =
          fmt::format("%{}{}.{}{}", plus, alternate ? "#" : "", c.precision < 0 ? 6 : c.precision, c.kind);
      std::array<char, 2048> text{};
      std::snprintf(text.data(), text.size(), format.c_str(), *number(value));  // NOLINT
      return text.data();
    }
    const bool is_float = value.is<double>();
    if (is_float && std::string_view("diu").find(c.kind) == std::string_view::npos) {
      core::fail("%{} format: an integer is required, not float", c.kind);
    }
    if (is_float && !(std::fabs(*number(value)) < 9.2e18)) core::fail("an integer is too large");
    const int64_t whole = is_float ? static_cast<int64_t>(*number(value)) : integer(&value, 0);
    const uint64_t size = whole < 0 ? 0 - static_cast<uint64_t>(whole) : static_cast<uint64_t>(whole);
    if (std::string_view("diuoxX").find(c.kind) == std::string_view::npos) {
      core::fail("unsupported format character '{}'", core::printable(std::string(1, c.kind)));
    }
    std::string digits = c.kind == 'o'   ? fmt::format("{:o}", size)
                         : c.kind == 'x' ? fmt::format("{:x}", size)
                         : c.kind == 'X' ? fmt::format("{:X}", size)
                                         : fmt::format("{}", size);
    if (static_cast<int64_t>(digits.size()) < c.precision) {
      digits.insert(0, static_cast<size_t>(c.precision) - digits.size(), '0');
    }
    if (alternate && c.kind == 'o') digits.insert(0, "0o");
    if (alternate && (c.kind == 'x' || c.kind == 'X')) digits.insert(0, c.kind == 'x' ? "0x" : "0X");
    return (whole < 0 ? "-" : plus) + digits;
  }

  // Appends `text`, padded to the width. Zeros are inserted after the sign (`sign` characters, 0 or 1) and after a
  // prefix such as 0x.
  void add(const Conversion& c, Text text, size_t sign) {
    const auto size = static_cast<int64_t>(text.size());
    if (size < c.width) {
      if (c.width > static_cast<int64_t>(kMaxText)) core::fail("a string has more than {} characters", kMaxText);
      const auto n = static_cast<size_t>(c.width - size);
      const bool is_number = std::string_view("srac").find(c.kind) == std::string_view::npos;
      if (c.has('-')) {
        text.append(n, U' ');
      } else if (is_number && c.has('0')) {
        const bool has_prefix = c.has('#') && std::string_view("oxX").find(c.kind) != std::string_view::npos;
        text.insert(sign + (has_prefix ? 2 : 0), n, U'0');
      } else {
        text.insert(0, n, U' ');
      }
    }
    session_.append(text_, text);
  }

  Session& session_;
  TextView format_;
  const Value& values_;
  Text text_;
  size_t at_ = 0;
  size_t next_ = 0;
};

}  // namespace

Text formatted(Session& session, TextView format, const Value& values) {
  return Formatter(session, format, values).run();
}

}  // namespace folio::data::jinja
