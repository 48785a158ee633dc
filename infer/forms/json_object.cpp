#include "infer/forms/json_object.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "core/error.h"
#include "infer/forms/character_automaton.h"
#include "infer/forms/json_string.h"

namespace folio::infer::forms {
namespace {

using Kind = JsonValue::Kind;
using Part = Grammar::Part;
using Rule = Grammar::Rule;

constexpr size_t kMostProperties = 2'000;
constexpr size_t kMostOptional = 500;     // maximum number of consecutive optional properties; each may be the next key
constexpr size_t kMostPatterns = 4;       // maximum number of patterns in patternProperties
constexpr int64_t kMostCounted = 10'000;  // maximum of (properties + 1) * (member counts to distinguish)

struct PatternProperty {
  CharacterAutomaton names;
  Json schema;
};

std::vector<PatternProperty> pattern_properties(const JsonValue& all, const std::string& at,
                                                const core::WorkBudget& budget) {
  std::vector<PatternProperty> to;
  const Json patterns = all.at("patternProperties");
  if (!patterns) return to;
  core::require(patterns->members.size() <= kMostPatterns, "{}: more than {} 'patternProperties' are not supported", at,
                kMostPatterns);
  const core::WorkBudget::Place place(budget, ".patternProperties");
  for (const auto& [pattern, schema] : patterns->members) {
    to.push_back({.names = CharacterAutomaton(parse_pattern(pattern, at, "patternProperties", budget), budget),
                  .schema = schema});
  }
  return to;
}

// Returns the part for members whose keys are not in `names`. Keys that match the same patterns have the same schema.
Part other_members(const SchemaContext& in, const std::vector<std::string>& names,
                   const std::vector<PatternProperty>& patterns, const Schema& other, const std::string& at) {
  Grammar& grammar = in.grammar;
  JsonParts& parts = in.parts;
  std::vector<Part> ways;
  if (patterns.empty()) {
    if (!other.value->is(Kind::False)) ways.push_back(parts.member(other_key(grammar, names), in.value(other)));
    return grammar.choice(ways);
  }
  const auto characters = [&](std::span<const CharacterRange> ranges) { return json_key_characters(grammar, ranges); };
  // Splits `keys` into those that match pattern `n` and those that don't, and so on for the patterns after it. `schema`
  // is the conjunction of the schemas of all patterns matched so far.
  const auto add = [&](const CharacterAutomaton& keys, const Json& schema, size_t n, auto&& self) -> void {
    if (keys.is_empty()) return;
    if (n < patterns.size()) {
      self(keys.but_not(patterns[n].names), schema, n + 1, self);
      self(keys.and_also(patterns[n].names), in.merger.both(schema, patterns[n].schema), n + 1, self);
      return;
    }
    const Schema of{.value = schema ? schema : other.value,
                    .at = at + (schema ? "/patternProperties" : "/additionalProperties")};
    if (of.value->is(Kind::False)) return;
    ways.push_back(parts.member(parts.quotes(keys.build(grammar, characters)), in.value(of)));
  };
  const core::WorkBudget::Place place(grammar.budget(), ".patternProperties");
  const CharacterAutomaton any(0, -1, grammar.budget());
  add(any.but_not(CharacterAutomaton(names, grammar.budget())), nullptr, 0, add);
  return grammar.choice(ways);
}

struct Property {
  std::string name;
  Schema schema;
  bool required;
};

// Returns the properties listed in "properties", then those listed only in "required". `other` is the schema of
// additional properties.
std::vector<Property> properties_of(const SchemaContext& in, const JsonValue& all,
                                    const std::vector<PatternProperty>& patterns, const Schema& other,
                                    const std::string& at) {
  const Json declared = all.at("properties");
  const Json required = all.at("required");
  std::unordered_set<std::string> needed;
  if (required) {
    for (const Json& name : required->items) needed.insert(name->text);
  }
  std::vector<Property> properties;
  std::unordered_set<std::string> known;
  const auto add = [&](const std::string& name, Json schema, bool is_declared) {
    bool matches = is_declared;
    for (const PatternProperty& pattern : patterns) {
      if (!pattern.names.accepts(name)) continue;
      schema = matches ? in.merger.both(schema, pattern.schema) : pattern.schema;
      matches = true;
    }
    const std::string place = fmt::format("{}/properties/{}", at, core::printable(name, 60));
    properties.push_back({.name = name,
                          .schema = matches ? Schema{.value = schema, .at = place} : other,
                          .required = needed.contains(name)});
    known.insert(name);
  };
  if (declared) {
    for (const auto& [name, schema] : declared->members) add(name, schema, true);
  }
  if (required) {
    for (const Json& name : required->items) {
      if (!known.contains(name->text)) add(name->text, other.value, false);
    }
  }
  core::require(properties.size() <= kMostProperties, "{}: has more than {} properties", at, kMostProperties);
  size_t n_optional = 0;
  for (const Property& property : properties) {
    n_optional = property.required ? 0 : n_optional + 1;
    core::require(n_optional <= kMostOptional, "{}: more than {} optional properties in a row are not supported", at,
                  kMostOptional);
  }
  return properties;
}

}  // namespace

Part object_part(const SchemaContext& in, const JsonValue& all, const std::string& at) {
  Grammar& grammar = in.grammar;
  JsonParts& parts = in.parts;
  const Json additional = all.at("additionalProperties");
  const Schema other{.value = additional ? additional : make_json({.kind = Kind::True}),
                     .at = at + "/additionalProperties"};
  const std::vector<PatternProperty> patterns = pattern_properties(all, at, grammar.budget());
  const std::vector<Property> properties = properties_of(in, all, patterns, other, at);
  const auto n_required = std::ranges::count_if(properties, &Property::required);
  const bool is_open = !other.value->is(Kind::False) || !patterns.empty();
  auto [least, most] = counts(all, "minProperties", "maxProperties", at);
  if (least <= n_required) least = 0;
  if (!is_open && most >= static_cast<int64_t>(properties.size())) most = -1;
  core::require(least <= 1 || !is_open,
                "{}: 'minProperties' above the number of required properties is only supported if all properties are "
                "listed (\"additionalProperties\": false), since keys of other properties may repeat",
                at);
  if (most == 0 || (most > 0 && most < least)) {
    const bool may_be_empty = most == 0 && least == 0 && n_required == 0;
    return may_be_empty ? parts.sequence({parts.mark('{'), grammar.text("}")}) : grammar.choice({});
  }
  const int64_t n_counts = std::max<int64_t>({1, most, least});
  core::require(n_counts * static_cast<int64_t>(properties.size() + 1) <= kMostCounted,
                "{}: 'minProperties' or 'maxProperties' is too large for this many properties", at);

  // tails[count - 1] is the rule for the rest of the object after `count` members. The loop below prepends properties
  // from the last to the first, so that each rule calls existing rules and the grammar stays small.
  std::vector<std::string> names;
  for (const Property& property : properties) names.push_back(property.name);
  const Rule extra = grammar.declare();
  grammar.define(extra, other_members(in, names, patterns, other, at));
  std::vector<Rule> tails;
  for (int64_t count = 1; count <= n_counts; ++count) {
    tails.push_back(grammar.declare());
    const auto one = [&] { return parts.sequence({parts.mark(','), grammar.call(extra)}); };
    grammar.define(tails.back(),
                   grammar.repeat(one, std::max<int64_t>(least - count, 0), most < 0 ? -1 : most - count));
  }
  // The first member may be any property up to and including the first required one. If none is required, it may also
  // be an additional property.
  std::vector<Part> ways;
  const auto first_required =
      static_cast<size_t>(std::ranges::find_if(properties, &Property::required) - properties.begin());
  if (first_required == properties.size()) {
    if (least == 0) ways.push_back(grammar.empty());
    ways.push_back(parts.sequence({grammar.call(extra), grammar.call(tails[0])}));
  }
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    const Rule member = grammar.declare();
    grammar.define(member, parts.member(grammar.text(json_quoted(property.name)), in.value(property.schema)));
    if (i <= first_required) ways.push_back(parts.sequence({grammar.call(member), grammar.call(tails[0])}));
    if (i == 0) break;
    std::vector<Rule> before;
    for (int64_t count = 1; count <= n_counts; ++count) {
      const auto c = static_cast<size_t>(count - 1);
      std::vector<Part> next;
      if (most < 0 || count < most) {
        const Rule tail = tails[std::min(c + 1, tails.size() - 1)];
        next.push_back(parts.sequence({parts.mark(','), grammar.call(member), grammar.call(tail)}));
      }
      if (!property.required) next.push_back(grammar.call(tails[c]));
      before.push_back(grammar.declare());
      grammar.define(before.back(), grammar.choice(next));
    }
    tails = std::move(before);
  }
  return parts.sequence({parts.mark('{'), grammar.choice(ways), grammar.text("}")});
}

}  // namespace folio::infer::forms
