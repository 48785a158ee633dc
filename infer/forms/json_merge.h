// Normalizes a JSON schema to a list of alternatives: objects with only assertions, without $ref, allOf, anyOf and
// oneOf. Nested schemas (of properties and items) are not changed.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "infer/forms/json_keywords.h"
#include "infer/forms/json_value.h"

namespace folio::infer::forms {

class SchemaMerger {
 public:
  /// `root` is the whole schema, to which each $ref refers.
  SchemaMerger(Json root, core::WorkBudget budget);

  // All functions throw core::Error if they exceed a work limit, for example when references multiply exponentially.
  /// Returns assertions_of() the schema, computed once.
  [[nodiscard]] Json assertions(const Schema& schema);
  /// Returns the schema that a $ref points to. Throws core::Error if the root schema does not contain it.
  [[nodiscard]] Schema target(const std::string& ref, const std::string& at) const;
  /// Returns the branches of `name` (anyOf or oneOf), null if absent. With OpenAPI's discriminator, each branch also
  /// requires the discriminating property; throws core::Error unless each branch lists the values of that property.
  [[nodiscard]] Json branches(const Schema& schema, const char* name, int depth = 0);
  /// Returns the schema's alternatives. A value is valid if it satisfies at least one of them.
  [[nodiscard]] std::vector<Json> alternatives(const Schema& schema, int depth = 0);
  /// Throws core::Error unless the branches of a oneOf are provably disjoint.
  void require_disjoint(const Json& branches, const std::string& at, int depth = 0);

  /// Returns the conjunction of two schemas. A null pointer (argument or result) is a schema that accepts any value.
  [[nodiscard]] Json both(const Json& a, const Json& b);

 private:
  void work(size_t n, const std::string& at);
  [[nodiscard]] Json merged(const Json& a, const Json& b, const std::string& at);
  [[nodiscard]] Json merged_keyword(const std::string& key, const JsonValue& a, const JsonValue& b,
                                    const std::string& at);
  void merge_objects(JsonValue& to, const JsonValue& a, const JsonValue& b, const std::string& at);
  void merge_arrays(JsonValue& to, const JsonValue& a, const JsonValue& b);
  [[nodiscard]] std::vector<std::string> tags(const Schema& branch, const std::string& property, const std::string& at,
                                              int depth);
  [[nodiscard]] bool disjoint(const JsonValue& a, const JsonValue& b, const std::string& at, int depth);

  Json root_;
  core::WorkBudget budget_;
  bool is_old_;  ///< see is_old_draft()
  std::map<std::pair<Json, Json>, Json> both_;
  std::unordered_map<Json, Json> assertions_;
  std::map<std::pair<Json, std::string>, Json> branches_;  ///< results of branches() by schema and keyword
  bool compares_ = false;  ///< true within disjoint(): the properties' own discriminators and oneOf are not checked
  size_t n_merged_ = 0;
  size_t n_work_ = 0;  ///< number of members and values visited
};

}  // namespace folio::infer::forms
