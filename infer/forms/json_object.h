// Objects of a JSON schema. Properties come in the order of the schema, then others. Keys are written in one way
// (json_value.h, json_quoted); other keys than those of the schema may repeat, where all of them have to fit the same
// schema.
#pragma once

#include <functional>
#include <string>

#include "infer/forms/grammar.h"
#include "infer/forms/json_keywords.h"
#include "infer/forms/json_merge.h"
#include "infer/forms/json_parts.h"

namespace folio::infer::forms {

/// What a part of a schema needs of the rest.
struct SchemaContext {
  Grammar& grammar;
  JsonParts& parts;
  SchemaMerger& merger;
  std::function<Grammar::Part(const Schema&)> value;  ///< calls the rule of a schema
};

/// The objects that all assertions hold for, which stand at `at`. Throws core::Error for what is not supported.
[[nodiscard]] Grammar::Part object_part(const SchemaContext& in, const JsonValue& assertions, const std::string& at);

}  // namespace folio::infer::forms
