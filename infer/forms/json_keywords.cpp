#include "infer/forms/json_keywords.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "infer/forms/json_format.h"
#include "infer/forms/json_number.h"
#include "infer/forms/regex.h"

namespace folio::infer::forms {
namespace {

using Kind = JsonValue::Kind;

constexpr int64_t kMostCount = 9'999'999;  // maximum of minItems, maxLength and similar keywords

enum class Takes : uint8_t { Any, Schema, Schemas, NamedSchemas, Count, Number, Text, Texts, Types, List, Flag };

struct Keyword {
  std::string_view name;
  Takes takes;
  bool asserts = true;  // false: SchemaKeywords::assertions() only checks the value and leaves the keyword out
};

// The last two are OpenAPI 3.0's: `nullable` adds the type null; SchemaMerger::branches() reads `discriminator`.
constexpr std::array kKeywords{
    Keyword{"type", Takes::Types},
    Keyword{"enum", Takes::List},
    Keyword{"const", Takes::Any},
    Keyword{"properties", Takes::NamedSchemas},
    Keyword{"required", Takes::Texts},
    Keyword{"additionalProperties", Takes::Schema},
    Keyword{"patternProperties", Takes::NamedSchemas},
    Keyword{"minProperties", Takes::Count},
    Keyword{"maxProperties", Takes::Count},
    Keyword{"items", Takes::Schema},
    Keyword{"prefixItems", Takes::Schemas},
    Keyword{"minItems", Takes::Count},
    Keyword{"maxItems", Takes::Count},
    Keyword{"uniqueItems", Takes::Flag},
    Keyword{"minLength", Takes::Count},
    Keyword{"maxLength", Takes::Count},
    Keyword{"pattern", Takes::Text},
    Keyword{"format", Takes::Text},
    Keyword{"minimum", Takes::Number},
    Keyword{"maximum", Takes::Number},
    Keyword{"exclusiveMinimum", Takes::Number},
    Keyword{"exclusiveMaximum", Takes::Number},
    Keyword{"multipleOf", Takes::Number},
    Keyword{"$ref", Takes::Text, false},
    Keyword{"allOf", Takes::Schemas, false},
    Keyword{"anyOf", Takes::Schemas, false},
    Keyword{"oneOf", Takes::Schemas, false},
    Keyword{"nullable", Takes::Flag, false},
    Keyword{"discriminator", Takes::Any, false},
};
// Annotations don't affect validity. $defs and definitions are only read through a $ref.
constexpr std::array<std::string_view, 12> kNotes{"title",    "description", "default",  "examples",
                                                  "$comment", "deprecated",  "readOnly", "writeOnly",
                                                  "$schema",  "$id",         "$defs",    "definitions"};
constexpr std::array<std::string_view, 7> kTypes{"null", "boolean", "integer", "number", "string", "array", "object"};

bool is_schema(const Json& value) { return value->is(Kind::Object) || value->is(Kind::True) || value->is(Kind::False); }
bool is_text(const Json& value) { return value->is(Kind::String); }
bool is_type(const Json& value) { return is_text(value) && std::ranges::find(kTypes, value->text) != kTypes.end(); }

bool fits(Takes takes, const Json& value) {
  switch (takes) {
    case Takes::Any:
      return true;
    case Takes::Schema:
      return is_schema(value);
    case Takes::Schemas:
      return value->is(Kind::Array) && std::ranges::all_of(value->items, is_schema);
    case Takes::NamedSchemas:
      return value->is(Kind::Object) &&
             std::ranges::all_of(value->members, [](const auto& member) { return is_schema(member.second); });
    case Takes::Count:
      if (!value->is(Kind::Number)) return false;
      return Decimal(value->text).is_integer() && !Decimal(value->text).negative;
    case Takes::Number:
      return value->is(Kind::Number);
    case Takes::Text:
      return is_text(value);
    case Takes::Texts:
      return value->is(Kind::Array) && std::ranges::all_of(value->items, is_text);
    case Takes::Types:
      return is_type(value) || (value->is(Kind::Array) && std::ranges::all_of(value->items, is_type));
    case Takes::List:
      return value->is(Kind::Array);
    case Takes::Flag:
      return value->is(Kind::True) || value->is(Kind::False);
  }
  return false;
}

}  // namespace

SchemaKeywords::SchemaKeywords(Json root, core::WorkBudget budget)
    : root_(std::move(root)), budget_(std::move(budget)) {
  const Json draft = root_->is(Kind::Object) ? root_->at("$schema") : nullptr;
  if (!draft || !is_text(draft)) return;
  core::require(draft->text.find("json-schema.org") != std::string::npos,
                "#: '$schema' \"{}\" is not supported; only drafts of json-schema.org are",
                core::printable(draft->text, 120));
  is_old_ = std::ranges::any_of(std::array{"draft-03", "draft-04", "draft-06", "draft-07"},
                                [&](const char* name) { return draft->text.find(name) != std::string::npos; });
}

Json SchemaKeywords::assertions(const Schema& schema) const {
  JsonValue to{.kind = Kind::Object};
  const JsonValue& from = *schema.value;
  if (from.is(Kind::True)) return make_json(std::move(to));
  core::require(from.is(Kind::Object), "{}: a schema must be an object, true or false", schema.at);
  for (const auto& [key, value] : from.members) {
    if (key == "$id") {
      core::require(schema.value == root_, "{}: '$id' is only supported at the top level", schema.at);
    }
    if (std::ranges::find(kNotes, key) != kNotes.end()) continue;
    if (key == "uniqueItems" && value->is(Kind::False)) continue;
    const auto keyword = std::ranges::find(kKeywords, key, &Keyword::name);
    core::require(keyword != kKeywords.end(), "{}: '{}' is not supported", schema.at, core::printable(key, 60));
    core::require(fits(keyword->takes, value), "{}: this value of '{}' is not supported", schema.at, key);
    core::require(!(is_old_ && key == "prefixItems"), "{}: '{}' is not supported in this draft", schema.at, key);
    core::require(!(is_old_ && key != "$ref" && from.at("$ref")),
                  "{}: '{}' next to '$ref' has no effect in this draft; put '$ref' in 'allOf'", schema.at, key);
    core::require(key != "format" || format_regex(value->text), "{}: 'format' \"{}\" is not supported", schema.at,
                  core::printable(value->text));
    if (!keyword->asserts) continue;
    if (key == "const" || key == "enum") {
      const Json values = key == "enum" ? value : make_list({value});
      const Json others = to.at("enum");
      const JsonSet known(others, budget_);
      JsonSet seen(nullptr, budget_);
      std::vector<Json> common;
      for (const Json& one : values->items) {
        if ((!others || known.has(one)) && seen.add(one)) common.push_back(one);
      }
      set_member(to, "enum", make_list(std::move(common)));
    } else {
      to.members.emplace_back(key, value);
    }
  }
  const Json nullable = from.at("nullable");
  const Json type = from.at("type");
  if (nullable && nullable->is(Kind::True) && type) {
    std::vector<Json> types = type->is(Kind::Array) ? type->items : std::vector{type};
    types.push_back(make_json({.kind = Kind::String, .text = "null"}));
    set_member(to, "type", make_list(std::move(types)));
  } else {  // in OpenAPI 3.0.3, `nullable` has no effect without a type
    core::require(!nullable || nullable->is(Kind::False) || to.at("enum"),
                  "{}: 'nullable' requires 'type'; or use 'anyOf' with {{\"type\": \"null\"}}", schema.at);
  }
  return make_json(std::move(to));
}

TypeSet types_of(const JsonValue& alternative) {
  const Json type = alternative.at("type");
  if (!type) return TypeSet().set();
  TypeSet types;
  for (const Json& one : type->is(Kind::String) ? std::vector{type} : type->items) {
    types.set(static_cast<size_t>(std::ranges::find(kTypes, one->text) - kTypes.begin()));
  }
  if (types[Type::Number]) types.set(Type::Integer);
  return types;
}

Json types_json(TypeSet types) {
  if (types[Type::Number]) types.reset(Type::Integer);
  std::vector<Json> names;
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (types[i]) names.push_back(make_json({.kind = Kind::String, .text = std::string(kTypes[i])}));
  }
  return make_list(std::move(names));
}

bool has_type(const JsonValue& value, const TypeSet& types) {
  constexpr std::array kTypeOf{Type::Null,   Type::Boolean, Type::Boolean, Type::Number,
                               Type::String, Type::Array,   Type::Object};  // indexed by Kind
  if (types[kTypeOf[static_cast<size_t>(value.kind)]]) return true;
  return value.is(Kind::Number) && types[Type::Integer] && Decimal(value.text).is_integer();
}

std::pair<int64_t, int64_t> counts(const JsonValue& assertions, const char* least, const char* most,
                                   const std::string& at) {
  const auto count = [&](const char* name, int64_t otherwise) {
    const Json json = assertions.at(name);
    if (!json) return otherwise;
    const Decimal number(json->text);
    core::require(number.exponent <= 7, "{}: '{}' exceeds {}", at, name, kMostCount);
    return number.to_integer().value();
  };
  return {count(least, 0), count(most, -1)};
}

Syntax parse_pattern(const std::string& pattern, const std::string& at, const char* keyword,
                     const core::WorkBudget& budget) {
  try {
    return parse_regex(pattern, RegexMatch::Search, RegexDialect::Ecma, budget);
  } catch (const core::WorkStopped&) {
    throw;
  } catch (const core::Error& error) {
    core::fail("{}: '{}': {}", at, keyword, error.what());
  }
}

}  // namespace folio::infer::forms
