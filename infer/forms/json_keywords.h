// The supported keywords of JSON Schema: the types of their values, and what they assert.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <utility>

#include "infer/forms/json_value.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// A schema and its location as a JSON pointer, for error messages.
struct Schema {
  Json value;
  std::string at;
};

/// Returns true if the $schema of the whole schema is a draft before 2019-09, which ignores keywords next to a $ref.
/// Throws core::Error if it is not a draft of json-schema.org.
[[nodiscard]] bool is_old_draft(const JsonValue& root);

/// Returns the schema's assertions as one object, without annotations such as title; const becomes an enum of one
/// value. $ref, allOf, anyOf and oneOf are checked and left out. `is_root`: the schema is the whole schema; `is_old`:
/// see is_old_draft(). Throws core::Error for an unsupported keyword.
[[nodiscard]] Json assertions_of(const Schema& schema, bool is_root, bool is_old, const core::WorkBudget& budget);

/// The types in the keyword "type" of a JSON schema. An integral number, such as 1.0, is an Integer and a Number.
struct Type {
  enum : uint8_t { Null, Boolean, Integer, Number, String, Array, Object };
};
using TypeSet = std::bitset<Type::Object + 1>;  ///< a set that contains Number also contains Integer
/// Returns the types listed in the keyword "type" of `assertions`; all types if it is absent.
[[nodiscard]] TypeSet types_of(const JsonValue& assertions);
/// Returns a value of the keyword "type" that allows these types.
[[nodiscard]] Json types_json(TypeSet types);
/// Returns true if `value` has one of `types`. Integral numbers, such as 1.0, have the type Integer.
[[nodiscard]] bool has_type(const JsonValue& value, const TypeSet& types);

/// Returns the values of the keywords `least` and `most`, such as minItems and maxItems; 0 and -1 (no limit) if absent.
/// Throws core::Error, which begins with `at`, if a value is 10,000,000 or more.
[[nodiscard]] std::pair<int64_t, int64_t> counts(const JsonValue& assertions, const char* least, const char* most,
                                                 const std::string& at);
/// Parses an ECMA-262 pattern that may match anywhere in a string. Errors begin with `at` and name `keyword`.
[[nodiscard]] Syntax parse_pattern(const std::string& pattern, const std::string& at, const char* keyword,
                                   const core::WorkBudget& budget);

}  // namespace folio::infer::forms
