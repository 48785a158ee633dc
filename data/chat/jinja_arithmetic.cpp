// Python's operators.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "core/error.h"
#include "data/chat/jinja_builtins.h"

namespace folio::data::jinja {
namespace {

std::optional<double> number(const Value& value) {
  if (const double* d = std::get_if<double>(&value.data)) return *d;
  if (const int64_t* i = std::get_if<int64_t>(&value.data)) return static_cast<double>(*i);
  if (const bool* b = std::get_if<bool>(&value.data)) return *b ? 1.0 : 0.0;
  return {};
}

[[noreturn]] void fail_overflow() { core::fail("an integer is too large"); }

int64_t integer_power(int64_t base, int64_t exponent) {
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return result;
}

Value integer_operation(std::string_view op, int64_t a, int64_t b) {
  if (op == "**")
    return b >= 0 ? Value{integer_power(a, b)} : Value{std::pow(static_cast<double>(a), static_cast<double>(b))};
  if (op == "+" || op == "-" || op == "*") {
    int64_t result = 0;
    const bool overflows = op == "+"   ? __builtin_add_overflow(a, b, &result)
                           : op == "-" ? __builtin_sub_overflow(a, b, &result)
                                       : __builtin_mul_overflow(a, b, &result);
    if (overflows) fail_overflow();
    return {result};
  }
  if (b == 0) core::fail("division by zero");
  if (op == "/") return {static_cast<double>(a) / static_cast<double>(b)};
  if (b == -1) return op == "%" ? Value{int64_t{0}} : integer_operation("-", 0, a);
  const int64_t remainder = a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;  // has the divisor's sign
  return op == "%" ? Value{remainder} : Value{(a - remainder) / b};
}

Value float_operation(std::string_view op, double a, double b) {
  if (op == "+") return {a + b};
  if (op == "-") return {a - b};
  if (op == "*") return {a * b};
  if (op == "**") return {std::pow(a, b)};
  if (b == 0) core::fail("division by zero");
  if (op == "/") return {a / b};
  if (op == "//") return {std::floor(a / b)};
  const double remainder = std::fmod(a, b);
  return {remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder};
}

}  // namespace

Value with_sign(bool is_negative, const Value& value) {
  if (const double* d = std::get_if<double>(&value.data)) return {is_negative ? -*d : *d};
  if (const auto* undefined = std::get_if<Undefined>(&value.data)) core::fail("'{}' is undefined", undefined->name);
  if (!number(value)) core::fail("bad operand type for a sign: '{}'", type_name(value));
  return is_negative ? integer_operation("-", 0, integer(&value, 0)) : Value{integer(&value, 0)};
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
  if (op == "+" && a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple) {
    std::vector<Value> items = items_of(session, a);
    const std::vector<Value> more = items_of(session, b);
    items.insert(items.end(), more.begin(), more.end());
    return session.list(std::move(items), a.list()->is_tuple);
  }
  if (op == "*" && (a.text() != nullptr || b.text() != nullptr) && (x || y)) {
    Text text;
    for (int64_t i = integer(x ? &a : &b, 0); i > 0; --i) session.append(text, x ? *b.text() : *a.text());
    return session.text(std::move(text));
  }
  if (op == "*" && (a.list() != nullptr || b.list() != nullptr) && (x || y)) {
    const Value& list = x ? b : a;
    std::vector<Value> items;
    for (int64_t i = integer(x ? &a : &b, 0); i > 0; --i) {
      session.spend(1);
      const std::vector<Value> more = items_of(session, list);
      items.insert(items.end(), more.begin(), more.end());
    }
    return session.list(std::move(items), list.list()->is_tuple);
  }
  for (const Value* value : {&a, &b}) {
    if (const auto* undefined = std::get_if<Undefined>(&value->data)) core::fail("'{}' is undefined", undefined->name);
  }
  core::fail("'{}' is not supported between '{}' and '{}'", op, type_name(a), type_name(b));
}

}  // namespace folio::data::jinja
