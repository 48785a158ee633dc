// Python's operators: arithmetic, membership, slices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

[[noreturn]] void fail_overflow() { core::fail("an integer is too large"); }

Value integer_operation(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op != "%") {
    if (op == "+" ? __builtin_add_overflow(a, b, &result) : __builtin_sub_overflow(a, b, &result)) fail_overflow();
    return {result};
  }
  if (b == 0) core::fail("division by zero");
  if (b == -1) return {int64_t{0}};
  return {a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b};  // has the divisor's sign
}

Value float_operation(std::string_view op, double a, double b) {
  if (op == "+") return {a + b};
  if (op == "-") return {a - b};
  if (b == 0) core::fail("division by zero");
  const double remainder = std::fmod(a, b);
  return {remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder};
}

}  // namespace

Value negative(const Value& value) {
  if (const double* d = std::get_if<double>(&value.data)) return {-*d};
  if (const auto* undefined = std::get_if<Undefined>(&value.data)) core::fail("'{}' is undefined", undefined->name);
  if (!number(value)) core::fail("bad operand type for a sign: '{}'", type_name(value));
  return integer_operation("-", 0, integer(&value, 0));
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
  for (const Value* value : {&a, &b}) {
    if (const auto* undefined = std::get_if<Undefined>(&value->data)) core::fail("'{}' is undefined", undefined->name);
  }
  core::fail("'{}' is not supported between '{}' and '{}'", op, type_name(a), type_name(b));
}

bool contains(Session& session, const Value& container, const Value& value) {
  if (const Text* text = container.text()) {
    return find_part(session, *text, text_of(value)) != Text::npos;
  }
  if (const Dict* dict = container.dict()) {
    const bool is_list = value.list() != nullptr && !value.list()->is_tuple;
    if (value.dict() != nullptr || is_list) core::fail("unhashable type: '{}'", type_name(value));
    return find_key(session, *dict, value) != nullptr;
  }
  const std::vector<Value> values = items_of(session, container);
  return std::any_of(values.begin(), values.end(), [&](const Value& v) { return equal(session, v, value); });
}

Value slice_of(Session& session, const Value& value, const Value& begin, const Value& end, const Value& step) {
  const Text* text = value.text();
  const List* list = value.list();
  if (text == nullptr && list == nullptr) core::fail("'{}' object has no slices", type_name(value));
  const auto size = static_cast<int64_t>(text != nullptr ? text->size() : list->items.size());
  const int64_t by = integer(&step, 1);
  if (by == 0) core::fail("slice step cannot be zero");
  // As PySlice_AdjustIndices: a bound from the end, then within what is there.
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
