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

constexpr std::array<std::string_view, 7> kTypes{"null", "boolean", "integer", "number", "string", "array", "object"};

bool is_any(const Json& /*value*/) { return true; }
bool is_flag(const Json& value) { return value->is(Kind::True) || value->is(Kind::False); }
bool is_schema(const Json& value) { return value->is(Kind::Object) || is_flag(value); }
bool is_named_schemas(const Json& value) {
  return value->is(Kind::Object) &&
         std::ranges::all_of(value->members, [](const auto& member) { return is_schema(member.second); });
}
bool is_number(const Json& value) { return value->is(Kind::Number); }
bool is_count(const Json& value) {
  return is_number(value) && Decimal(value->text).is_integer() && !Decimal(value->text).negative;
}
bool is_text(const Json& value) { return value->is(Kind::String); }
bool is_type(const Json& value) { return is_text(value) && std::ranges::find(kTypes, value->text) != kTypes.end(); }
bool is_format(const Json& value) { return is_text(value) && format_regex(value->text); }
bool is_list(const Json& value) { return value->is(Kind::Array); }
template <bool (*IsItem)(const Json&)>
bool is_list_of(const Json& value) {
  return is_list(value) && std::ranges::all_of(value->items, IsItem);
}
bool is_types(const Json& value) { return is_type(value) || is_list_of<is_type>(value); }

struct Keyword {
  std::string_view name;
  bool (*accepts)(const Json& value);
  bool asserts = true;  // false: assertions_of() only checks the value and leaves the keyword out
};

// The last two are OpenAPI 3.0's: `nullable` adds the type null; SchemaMerger::branches() reads `discriminator`.
constexpr std::array kKeywords{
    Keyword{"type", is_types},
    Keyword{"enum", is_list},
    Keyword{"const", is_any},
    Keyword{"properties", is_named_schemas},
    Keyword{"required", is_list_of<is_text>},
    Keyword{"additionalProperties", is_schema},
    Keyword{"patternProperties", is_named_schemas},
    Keyword{"minProperties", is_count},
    Keyword{"maxProperties", is_count},
    Keyword{"items", is_schema},
    Keyword{"prefixItems", is_list_of<is_schema>},
    Keyword{"minItems", is_count},
    Keyword{"maxItems", is_count},
    Keyword{"uniqueItems", is_flag},
    Keyword{"minLength", is_count},
    Keyword{"maxLength", is_count},
    Keyword{"pattern", is_text},
    Keyword{"format", is_format},
    Keyword{"minimum", is_number},
    Keyword{"maximum", is_number},
    Keyword{"exclusiveMinimum", is_number},
    Keyword{"exclusiveMaximum", is_number},
    Keyword{"multipleOf", is_number},
    Keyword{"$ref", is_text, false},
    Keyword{"allOf", is_list_of<is_schema>, false},
    Keyword{"anyOf", is_list_of<is_schema>, false},
    Keyword{"oneOf", is_list_of<is_schema>, false},
    Keyword{"nullable", is_flag, false},
    Keyword{"discriminator", is_any, false},
};
// Annotations don't affect validity. $defs and definitions are only read through a $ref.
constexpr std::array<std::string_view, 12> kNotes{"title",    "description", "default",  "examples",
                                                  "$comment", "deprecated",  "readOnly", "writeOnly",
                                                  "$schema",  "$id",         "$defs",    "definitions"};

}  // namespace

bool is_old_draft(const JsonValue& root) {
  const Json draft = root.at("$schema");
  if (!draft || !is_text(draft)) return false;
  core::require(draft->text.find("json-schema.org") != std::string::npos,
                "#: '$schema' \"{}\" is not supported; only drafts of json-schema.org are",
                core::printable(draft->text, 120));
  return std::ranges::any_of(std::array{"draft-03", "draft-04", "draft-06", "draft-07"},
                             [&](const char* name) { return draft->text.find(name) != std::string::npos; });
}

Json assertions_of(const Schema& schema, bool is_root, bool is_old, const core::WorkBudget& budget) {
  JsonValue to{.kind = Kind::Object};
  const JsonValue& from = *schema.value;
  if (from.is(Kind::True)) return make_json(std::move(to));
  core::require(from.is(Kind::Object), "{}: a schema must be an object, true or false", schema.at);
  for (const auto& [key, value] : from.members) {
    core::require(key != "$id" || is_root, "{}: '$id' is only supported at the top level", schema.at);
    if (std::ranges::find(kNotes, key) != kNotes.end()) continue;
    if (key == "uniqueItems" && value->is(Kind::False)) continue;
    const auto keyword = std::ranges::find(kKeywords, key, &Keyword::name);
    core::require(keyword != kKeywords.end(), "{}: '{}' is not supported", schema.at, core::printable(key, 60));
    core::require(keyword->accepts(value), "{}: '{}' {} is not supported", schema.at, key,
                  [&] { return core::printable(written(*value), 80); });
    core::require(!(is_old && key == "prefixItems"), "{}: '{}' is not supported in this draft", schema.at, key);
    core::require(!(is_old && key != "$ref" && from.at("$ref")),
                  "{}: '{}' next to '$ref' has no effect in this draft; put '$ref' in 'allOf'", schema.at, key);
    if (!keyword->asserts) continue;
    if (key == "const" || key == "enum") {
      const Json values = key == "enum" ? value : make_list({value});
      const Json others = to.at("enum");
      const JsonSet known(others, budget);
      JsonSet seen(nullptr, budget);
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
