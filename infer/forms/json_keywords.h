// The keywords of JSON schemas that are supported: what their values have to be, and what they say.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "infer/forms/json_value.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// A schema, and where it stands as a JSON pointer, for messages.
struct Schema {
  Json value;
  std::string at;
};

class SchemaKeywords {
 public:
  /// `root` is the whole schema, which says of which draft it is. Throws core::Error if it is not one of
  /// json-schema.org.
  SchemaKeywords(Json root, core::WorkBudget budget);

  /// What a schema says besides the keywords that mean nothing, as one object; const is an enum of one. What refers to
  /// other schemas or combines them ($ref, allOf, anyOf, oneOf) is checked and left out. Throws core::Error for a
  /// keyword that is not supported.
  [[nodiscard]] Json assertions(const Schema& schema) const;

 private:
  Json root_;
  core::WorkBudget budget_;
  bool is_old_ = false;  ///< a draft before 2019-09, where what stands beside a $ref is not read
};

/// The types that an object of assertions allows.
struct TypeSet {
  bool null = true, boolean = true, integer = true, number = true, string = true, array = true, object = true;
};
[[nodiscard]] TypeSet types_of(const JsonValue& assertions);
/// Whether a value is of one of the types.
[[nodiscard]] bool has_type(const JsonValue& value, const TypeSet& types);

/// The least and the most of something; -1 where there is no most.
[[nodiscard]] std::pair<int64_t, int64_t> counts(const JsonValue& assertions, const char* least, const char* most,
                                                 const std::string& at);
/// Of `keyword`, which messages name.
[[nodiscard]] Syntax parse_pattern(const std::string& pattern, const std::string& at, const char* keyword,
                                   const core::WorkBudget& budget);

}  // namespace folio::infer::forms
