// Jinja's filters for numbers: abs, filesizeformat, float, int and round.
#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

Value absolute(Session&, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  if (const double* d = std::get_if<double>(&self.data)) return {std::fabs(*d)};
  if (!number(self)) core::fail("bad operand type for abs(): '{}'", type_name(self));
  const int64_t value = integer(&self, 0);
  return value < 0 ? with_sign("-", self) : Value{value};
}

// Removes surrounding whitespace, and "_" between digits, like Python's int() and float(). Returns nullopt for a
// misplaced "_".
std::optional<std::string> digits_of(const Text& text) {
  size_t begin = 0;
  size_t end = text.size();
  while (begin < end && is_space(text[begin])) ++begin;
  while (end > begin && is_space(text[end - 1])) --end;
  std::string digits = to_utf8(TextView(text).substr(begin, end - begin));
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') continue;
    if (i == 0 || i + 1 == digits.size() || std::isalnum(static_cast<unsigned char>(digits[i - 1])) == 0 ||
        std::isalnum(static_cast<unsigned char>(digits[i + 1])) == 0) {
      return {};
    }
  }
  std::erase(digits, '_');
  return digits;
}

std::optional<int64_t> parsed_integer(const Text& text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return {};
  auto digits = digits_of(text);
  if (!digits) return {};
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const char letter = rest.size() > 2 && rest[0] == '0' ? static_cast<char>(rest[1] | 0x20) : '\0';
  const int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    rest.remove_prefix(2);
    base = prefixed;
  } else if (base == 0) {
    if (rest.size() > 1 && rest[0] == '0' && rest.find_first_not_of('0') != std::string_view::npos) return {};
    base = 10;
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, static_cast<int>(base));
  if (end != rest.data() + rest.size() || rest.empty()) return {};
  if (error != std::errc() || value > static_cast<uint64_t>(INT64_MAX)) core::fail("an integer is too large");
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

std::optional<double> parsed_float(const Text& text) {
  const auto digits = digits_of(text);
  if (!digits || digits->empty()) return {};
  for (const char c : *digits) {  // strtod would accept hexadecimal numbers and "nan(…)"
    if (std::string_view("xX(pP").find(c) != std::string_view::npos) return {};
  }
  char* end = nullptr;
  const double value = std::strtod(digits->c_str(), &end);
  if (end != digits->c_str() + digits->size()) return {};
  return value;
}

std::optional<double> float_of(const Value& value) {
  require_defined(value);
  return value.text() != nullptr ? parsed_float(*value.text()) : number(value);
}

Value truncated(double value) {
  if (std::isnan(value)) core::fail("cannot convert float NaN to integer");
  if (!(std::fabs(value) < 9.2e18)) core::fail("an integer is too large");
  return {static_cast<int64_t>(value)};
}

Value to_int(Session&, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"default", "base"});
  const int64_t base = a[1] == nullptr ? 10 : integer(a[1], 10);
  require_defined(self);
  if (self.text() != nullptr) {
    if (const auto value = parsed_integer(*self.text(), base)) return {*value};
    const auto value = parsed_float(*self.text());
    if (value && std::isfinite(*value)) return truncated(*value);
  } else if (const double* d = std::get_if<double>(&self.data); d != nullptr && !std::isnan(*d)) {
    return truncated(*d);
  } else if (d == nullptr && number(self)) {
    return {integer(&self, 0)};
  }
  return a[0] == nullptr ? Value{int64_t{0}} : *a[0];
}

Value to_float(Session&, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"default"});
  if (const auto value = float_of(self)) return {*value};
  return a[0] == nullptr ? Value{0.0} : *a[0];
}

// Rounds like Python's round(): uses the exact value, and rounds ties to even.
double rounded(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision >= 0) return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
  if (precision < -308) return std::copysign(0.0, value);
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / unit) * unit;
}

Value round_filter(Session&, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"precision", "method"});
  const int64_t precision = a[0] == nullptr ? 0 : integer(a[0], 0);
  const Text method = a[1] == nullptr ? Text(U"common") : text_of(*a[1]);
  require_defined(self);
  const auto value = number(self);
  if (!value) core::fail("'{}' cannot be rounded", type_name(self));
  if (same(method, U"common")) {
    if (self.is<double>()) return {rounded(*value, precision)};
    if (precision >= 0) return {integer(&self, 0)};
    return truncated(rounded(*value, precision));
  }
  const bool is_ceil = same(method, U"ceil");
  if (!is_ceil && !same(method, U"floor")) core::fail("round: the method must be common, ceil or floor");
  if (precision < -300 || precision > 300) core::fail("round: the precision is too large");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *value * unit;
  if (!std::isfinite(scaled)) core::fail("'{}' cannot be rounded", *value);
  return {((is_ceil ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / unit};  // + 0.0 turns -0 into 0
}

Value filesizeformat(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"binary"});
  const bool binary = is_true(a[0]);
  const auto bytes = float_of(self);
  if (!bytes) core::fail("'{}' is not a size", type_name(self));
  const double base = binary ? 1024 : 1000;
  const auto text = [&](const std::string& utf8) { return session.text(from_utf8(utf8)); };
  if (*bytes == 1) return text("1 Byte");
  if (*bytes < base) return text(fmt::format("{} Bytes", std::get<int64_t>(truncated(*bytes).data)));
  double unit = base;
  std::string_view prefix = "kMGTPEZY";
  while (prefix.size() > 1 && !(*bytes < unit * base)) {
    unit *= base;
    prefix.remove_prefix(1);
  }
  const char first = binary && prefix[0] == 'k' ? 'K' : prefix[0];
  return text(fmt::format("{:.1f} {}{}", *bytes / unit, first, binary ? "iB" : "B"));
}

constexpr std::array kNumberFilters{Builtin{"abs", absolute}, Builtin{"filesizeformat", filesizeformat},
                                    Builtin{"float", to_float}, Builtin{"int", to_int}, Builtin{"round", round_filter}};

}  // namespace

std::span<const Builtin> number_filters() { return kNumberFilters; }

}  // namespace folio::data::jinja
