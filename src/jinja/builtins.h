// Functions that a template can use: Jinja's and transformers' globals, filters and tests, and methods of Python types.
#pragma once

#include <initializer_list>

#include "jinja/value.h"

namespace folio::data::jinja {

/// A function for templates. `self` is the operand of a filter, test or method, and undefined for a global function.
/// `call` throws core::Error where Python would raise an exception.
struct Builtin {
  std::string_view name;
  Value (*call)(Session& session, const Value& self, const Arguments& arguments);
};

/// Return the function with this name, or null if there is none.
[[nodiscard]] const Builtin* find_global(std::string_view name);
[[nodiscard]] const Builtin* find_filter(std::string_view name);
[[nodiscard]] const Builtin* find_test(std::string_view name);
[[nodiscard]] const Builtin* find_method(const Value& value, std::string_view name);

/// Evaluates object.name: returns the method `name`, otherwise what item_of() returns. Throws core::Error if `object`
/// is undefined.
[[nodiscard]] Value attribute_of(Session& session, const Value& object, const Value& name);
/// Evaluates object[key]: returns the element, otherwise the method `key`, otherwise undefined. Throws core::Error if
/// `object` is undefined.
[[nodiscard]] Value item_of(Session& session, const Value& object, const Value& key);
/// Evaluates value[begin:end:step] for a string or list; bounds are integers or none. Throws core::Error for other
/// types.
[[nodiscard]] Value slice_of(Session& session, const Value& value, const Value& begin, const Value& end,
                             const Value& step);

/// Evaluates `value in container`.
[[nodiscard]] bool contains(Session& session, const Value& container, const Value& value);

/// Evaluate +value or -value, and a binary operator: + - * / // % **.
[[nodiscard]] Value with_sign(std::string_view sign, const Value& value);
[[nodiscard]] Value operation(Session& session, std::string_view op, const Value& a, const Value& b);

// Helpers for implementing the functions that a template can use.

/// Returns the value of each parameter in `names`, null if not given: Arguments::bind() for a braced list of names.
[[nodiscard]] std::vector<const Value*> bind(const Arguments& arguments, std::initializer_list<std::string_view> names,
                                             size_t n_required = 0);
/// Returns the items of a dict, or those of a list of pairs.
[[nodiscard]] std::vector<std::pair<Value, Value>> pairs_of(Session& session, const Value& value);
/// Returns the keyword arguments of a call as (name, value) pairs, the items of a dict.
[[nodiscard]] std::vector<std::pair<Value, Value>> keyword_pairs(Session& session, const Arguments& arguments);
/// Returns truthy(*argument), or `otherwise` if `argument` is null.
[[nodiscard]] bool is_true(const Value* argument, bool otherwise = false);
/// Returns the integer *argument, or `otherwise` if the pointer is null or the value none. Throws core::Error for other
/// types.
[[nodiscard]] int64_t integer(const Value* argument, int64_t otherwise);
/// Throws core::Error if the value is undefined.
void require_defined(const Value& value);
/// Returns the string in `value`. Throws core::Error if it is not a string.
[[nodiscard]] const Text& text_of(const Value& value);
/// Evaluates Python's str(value).
[[nodiscard]] Text as_text(Session& session, const Value& value);
[[nodiscard]] Text lower_case(TextView text);
[[nodiscard]] Text upper_case(TextView text);
/// Implement Python's str.islower and str.isupper.
[[nodiscard]] bool is_lower(TextView text);
[[nodiscard]] bool is_upper(TextView text);
/// Returns true for a character that Python's \w matches.
[[nodiscard]] bool is_word(char32_t c);
/// Returns true for the digits 0 to 9.
[[nodiscard]] bool is_decimal(char32_t c);
/// Implements Python's str.splitlines(keepends=with_ends).
[[nodiscard]] std::vector<TextView> lines_of(TextView text, bool with_ends = false);
/// Returns the value in `item` at `path`: an index, or names such as "function.name". If a name or index is missing,
/// continues with *otherwise, or with undefined if `otherwise` is null or none.
[[nodiscard]] Value attribute_at(Session& session, Value item, const Value& path, const Value* otherwise = nullptr);
/// Evaluates Python's `format % values`, where `values` is a single value, a tuple or a dict.
[[nodiscard]] Text formatted(Session& session, TextView format, const Value& values);

/// Return the methods, filters and tests that text.cpp, sequences.cpp, layout.cpp, numbers.cpp and tests.cpp define.
[[nodiscard]] std::span<const Builtin> text_methods();
[[nodiscard]] std::span<const Builtin> text_filters();
[[nodiscard]] std::span<const Builtin> sequence_filters();
[[nodiscard]] std::span<const Builtin> layout_filters();
[[nodiscard]] std::span<const Builtin> number_filters();
[[nodiscard]] std::span<const Builtin> tests();

}  // namespace folio::data::jinja
