// What a JSON schema says, brought into one form: alternatives, of which each is an object of assertions alone, without
// $ref, allOf, anyOf and oneOf. Subschemas stay as they are written.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "infer/forms/json_keywords.h"
#include "infer/forms/json_value.h"

namespace folio::infer::forms {

class SchemaMerger {
 public:
  /// `root` is what $ref is looked up in.
  SchemaMerger(Json root, core::WorkBudget budget);

  // All throw core::Error if there is too much to do, as where references double again and again.
  /// What a schema says besides the keywords that mean nothing; const is an enum of one. Throws core::Error for a
  /// keyword that is not supported.
  [[nodiscard]] Json assertions(const Schema& schema);
  /// Where a $ref leads.
  [[nodiscard]] Schema target(const std::string& ref, const std::string& at) const;
  /// The branches of its anyOf or oneOf; null where it has none. Where OpenAPI's discriminator names a property, each
  /// branch requires it. Throws core::Error, with the place, unless each branch says which values that has.
  [[nodiscard]] Json branches(const Schema& schema, const char* name);
  /// A value fits the schema if it fits one of these.
  [[nodiscard]] std::vector<Json> alternatives(const Schema& schema, int depth = 0);
  /// Throws core::Error unless it is plain that no value fits two of the branches of a oneOf.
  void require_disjoint(const Json& branches, const std::string& at, int depth = 0);

  /// What both say. A null pointer stands for a schema that everything fits, as in the results of `property` and
  /// `item`.
  [[nodiscard]] Json both(const Json& a, const Json& b);

 private:
  void work(size_t n, const std::string& at);
  [[nodiscard]] Json merged(const Json& a, const Json& b, const std::string& at);
  void merge_objects(JsonValue& to, const JsonValue& a, const JsonValue& b, const std::string& at);
  void merge_arrays(JsonValue& to, const JsonValue& a, const JsonValue& b);
  [[nodiscard]] std::vector<std::string> tags(const Schema& branch, const std::string& property, const std::string& at);
  [[nodiscard]] bool disjoint(const JsonValue& a, const JsonValue& b, const std::string& at, int depth);

  Json root_;
  core::WorkBudget budget_;
  SchemaKeywords keywords_;
  std::map<std::pair<Json, Json>, Json> both_;
  std::unordered_map<Json, Json> assertions_;
  std::map<std::pair<Json, std::string>, Json> branches_;  ///< with what a discriminator requires
  size_t n_merged_ = 0;
  size_t n_work_ = 0;  ///< members and values that were looked at
};

}  // namespace folio::infer::forms
