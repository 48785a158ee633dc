// Implements Python's operators: arithmetic, membership, slices.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

[[noreturn]] void fail_overflow() { core::fail("an integer is too large"); }

int64_t product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
  return result;
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) core::fail("zero cannot be raised to a negative power");
    return {std::pow(static_cast<double>(base), static_cast<double>(exponent))};
  }
  if (base == 0 || base == 1) return {exponent == 0 ? int64_t{1} : base};
  if (base == -1) return {exponent % 2 == 0 ? int64_t{1} : int64_t{-1}};
  int64_t result = 1;
  for (; exponent > 0; --exponent) result = product(result, base);  // product() throws after at most 64 iterations
  return {result};
}

Value integer_operation(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "**") return power(a, b);
  if (op == "*") return {product(a, b)};
  if (op == "+" || op == "-") {
    if (op == "+" ? __builtin_add_overflow(a, b, &result) : __builtin_sub_overflow(a, b, &result)) fail_overflow();
    return {result};
  }
  if (b == 0) core::fail("division by zero");
  if (op == "/") return {static_cast<double>(a) / static_cast<double>(b)};
  if (b == -1) return op == "%" ? Value{int64_t{0}} : integer_operation("-", 0, a);
  const bool is_below = a % b != 0 && (a % b < 0) != (b < 0);  // Python's remainder has the divisor's sign
  if (op == "%") return {is_below ? a % b + b : a % b};
  return {is_below ? a / b - 1 : a / b};
}

Value float_operation(std::string_view op, double a, double b) {
  if (op == "+") return {a + b};
  if (op == "-") return {a - b};
  if (op == "*") return {a * b};
  if (op == "**") {
    if (a == 0 && b < 0) core::fail("zero cannot be raised to a negative power");
    if (a < 0 && b != std::floor(b)) core::fail("complex numbers are not supported");
    const double result = std::pow(a, b);
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) core::fail("a float is too large");
    return {result};
  }
  if (b == 0) core::fail("division by zero");
  if (op == "/") return {a / b};
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == "%") return {remainder == 0 ? std::copysign(0.0, b) : remainder};
  if (quotient == 0) return {std::copysign(0.0, a / b)};
  return {quotient - std::floor(quotient) > 0.5 ? std::floor(quotient) + 1 : std::floor(quotient)};
}

// Evaluates string * n or list * n; returns nullopt for other types.
std::optional<Value> repeated(Session& session, const Value& what, const Value& times) {
  if ((what.text() == nullptr && what.list() == nullptr) || !(times.is<int64_t>() || times.is<bool>())) return {};
  Text text;
  std::vector<Value> items;
  for (int64_t n = integer(&times, 0); n > 0; --n) {
    if (what.text() != nullptr) {
      session.append(text, *what.text());
      if (what.text()->empty()) break;
    } else {
      session.spend(1 + what.list()->items.size());
      items.insert(items.end(), what.list()->items.begin(), what.list()->items.end());
      if (items.empty()) break;
    }
  }
  if (what.text() != nullptr) return session.text(std::move(text));
  return session.list(std::move(items), what.list()->is_tuple);
}

}  // namespace

Value with_sign(std::string_view sign, const Value& value) {
  if (const double* d = std::get_if<double>(&value.data)) return {sign == "-" ? -*d : *d};
  require_defined(value);
  if (!number(value)) core::fail("bad operand type for unary + or -: '{}'", type_name(value));
  return integer_operation(sign, 0, integer(&value, 0));
}

Value operation(Session& session, std::string_view op, const Value& a, const Value& b) {
  const auto x = number(a);
  const auto y = number(b);
  if (x && y && (a.is<double>() || b.is<double>())) return float_operation(op, *x, *y);
  if (x && y) return integer_operation(op, integer(&a, 0), integer(&b, 0));
  if (op == "+" && a.text() != nullptr && b.text() != nullptr) {
    Text text;
    session.append(text, *a.text());
    session.append(text, *b.text());
    return session.text(std::move(text));
  }
  if (op == "%" && a.text() != nullptr) return session.text(formatted(session, *a.text(), b));
  if (op == "+" && a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple) {
    std::vector<Value> items = items_of(session, a);
    const std::vector<Value> more = items_of(session, b);
    items.insert(items.end(), more.begin(), more.end());
    return session.list(std::move(items), a.list()->is_tuple);
  }
  if (op == "*") {
    if (auto many = repeated(session, a, b)) return *many;
    if (auto many = repeated(session, b, a)) return *many;
  }
  for (const Value* value : {&a, &b}) require_defined(*value);
  core::fail("'{}' is not supported between '{}' and '{}'", op, type_name(a), type_name(b));
}

bool contains(Session& session, const Value& container, const Value& value) {
  if (const Text* text = container.text()) {
    return find_part(session, *text, text_of(value)) != Text::npos;
  }
  if (const Dict* dict = container.dict()) {
    require_hashable(value);
    return find_key(session, *dict, value) != nullptr;
  }
  const std::vector<Value> values = items_of(session, container);
  return std::any_of(values.begin(), values.end(), [&](const Value& v) { return equal(session, v, value); });
}

Value slice_of(Session& session, const Value& value, const Value& begin, const Value& end, const Value& step) {
  const Text* text = value.text();
  const List* list = value.list();
  require_defined(value);
  if (text == nullptr && list == nullptr) core::fail("'{}' object cannot be sliced", type_name(value));
  const auto size = static_cast<int64_t>(text != nullptr ? text->size() : list->items.size());
  const int64_t by = integer(&step, 1);
  if (by == 0) core::fail("slice step cannot be zero");
  // As in PySlice_AdjustIndices, negative bounds count from the end, and bounds are clamped to the length.
  const auto bound = [&](const Value& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    int64_t at = integer(&v, 0);
    if (at < 0) at = at < -size ? -1 : at + size;
    return by < 0 ? std::clamp<int64_t>(at, -1, size - 1) : std::clamp<int64_t>(at, 0, size);
  };
  const int64_t from = bound(begin, by < 0 ? size - 1 : 0);
  const int64_t to = bound(end, by < 0 ? -1 : size);
  Text characters;
  std::vector<Value> items;
  for (int64_t i = from; by < 0 ? i > to : i < to;) {
    if (text != nullptr) {
      characters += (*text)[static_cast<size_t>(i)];
    } else {
      items.push_back(list->items[static_cast<size_t>(i)]);
    }
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return text != nullptr ? session.text(std::move(characters)) : session.list(std::move(items), list->is_tuple);
}

}  // namespace folio::data::jinja
