// Grammar parts for objects of a JSON schema. Properties come in the schema's order, then additional ones. Keys are
// escaped as in Python's json.dumps(ensure_ascii=False). Additional keys may repeat; each occurrence must satisfy
// the same schema.
#pragma once

#include <functional>
#include <string>

#include "infer/forms/grammar.h"
#include "infer/forms/json_keywords.h"
#include "infer/forms/json_merge.h"
#include "infer/forms/json_parts.h"

namespace folio::infer::forms {

/// The schema compiler's grammar, shared parts and functions that object_part() uses.
struct SchemaContext {
  Grammar& grammar;
  JsonParts& parts;
  SchemaMerger& merger;
  std::function<Grammar::Part(const Schema&)> value;  ///< returns a call of the rule that matches a schema
};

/// Returns the part for objects that satisfy `assertions`. `at` is the location of the assertions, for error messages.
/// Throws core::Error if a feature is unsupported.
[[nodiscard]] Grammar::Part object_part(const SchemaContext& in, const JsonValue& assertions, const std::string& at);

}  // namespace folio::infer::forms
