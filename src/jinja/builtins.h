// What Jinja and transformers give a template: global functions, filters, tests, and the methods of Python's values.
#pragma once

#include <initializer_list>

#include "jinja/value.h"

namespace folio::data::jinja {

/// `self` is what a filter, a test or a method is applied to. Throws core::Error as Python would an exception.
struct Builtin {
  std::string_view name;
  Value (*call)(Session& session, const Value& self, const Arguments& arguments);
};

/// Null where there is none of that name.
[[nodiscard]] const Builtin* find_global(std::string_view name);
[[nodiscard]] const Builtin* find_filter(std::string_view name);
[[nodiscard]] const Builtin* find_test(std::string_view name);
[[nodiscard]] const Builtin* find_method(const Value& value, std::string_view name);
/// loop.cycle() and loop.changed().
[[nodiscard]] const Builtin* find_loop_method(std::string_view name);

/// object.name: the method of that name, else the item; undefined where there is neither.
[[nodiscard]] Value attribute_of(Session& session, const Value& object, const Value& name);
/// object[key]: the item, else the method of that name. Throws core::Error for an undefined object.
[[nodiscard]] Value item_of(Session& session, const Value& object, const Value& key);
/// value[begin:end:step] of a text or a list; bounds are integers, or none.
[[nodiscard]] Value slice_of(Session& session, const Value& value, const Value& begin, const Value& end,
                             const Value& step);

/// `value in container`.
[[nodiscard]] bool contains(Session& session, const Value& container, const Value& value);

/// +value or -value, and the operators of two operands: + - * / // % **.
[[nodiscard]] Value with_sign(std::string_view sign, const Value& value);
[[nodiscard]] Value operation(Session& session, std::string_view op, const Value& a, const Value& b);

// ---- for builtins ----

/// Arguments::bind for names that are written out.
[[nodiscard]] std::vector<const Value*> bind(const Arguments& arguments, std::initializer_list<std::string_view> names,
                                             size_t n_required = 0);
/// The argument, or `otherwise` where it is missing or none. Throws core::Error for another type.
[[nodiscard]] int64_t integer(const Value* argument, int64_t otherwise);
[[nodiscard]] const Text& text_of(const Value& value);
/// str(value).
[[nodiscard]] Text as_text(Session& session, const Value& value);
[[nodiscard]] Text lower_case(TextView text);
[[nodiscard]] Text upper_case(TextView text);
/// Python's str.islower and str.isupper.
[[nodiscard]] bool is_lower(TextView text);
[[nodiscard]] bool is_upper(TextView text);
/// A character of Python's \\w.
[[nodiscard]] bool is_word(char32_t c);
/// Python's str.splitlines(keepends=with_ends).
[[nodiscard]] std::vector<TextView> lines_of(TextView text, bool with_ends = false);
/// The item that a path such as "function.name" or an index names, as the filters with an attribute have it; an item
/// that is missing on the way is `otherwise`, where it is given.
[[nodiscard]] Value attribute_at(Session& session, Value item, const Value& path, const Value* otherwise = nullptr);
/// text % value, of one value, a tuple or a dict.
[[nodiscard]] Text formatted(Session& session, TextView format, const Value& values);

/// Methods of texts; filters of texts, of sequences, and of numbers, with the text layouts that few templates use.
[[nodiscard]] std::span<const Builtin> text_methods();
[[nodiscard]] std::span<const Builtin> text_filters();
[[nodiscard]] std::span<const Builtin> sequence_filters();
[[nodiscard]] std::span<const Builtin> layout_filters();
[[nodiscard]] std::span<const Builtin> number_filters();
[[nodiscard]] std::span<const Builtin> tests();

}  // namespace folio::data::jinja
