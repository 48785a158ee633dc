// Compiles a JSON schema to a grammar with a rule for each reachable schema. Strings in enum values are escaped
// only as in Python's json.dumps(ensure_ascii=False). Objects are in json_object.cpp.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "infer/forms/character_automaton.h"
#include "infer/forms/forms.h"
#include "infer/forms/json_format.h"
#include "infer/forms/json_merge.h"
#include "infer/forms/json_number.h"
#include "infer/forms/json_object.h"
#include "infer/forms/json_parts.h"
#include "infer/forms/json_string.h"
#include "infer/forms/json_value.h"
#include "infer/forms/regex.h"

namespace folio::infer::forms {
namespace {

using Kind = JsonValue::Kind;
using Part = Grammar::Part;
using Rule = Grammar::Rule;

constexpr size_t kMostBranches = 256;
constexpr size_t kMostRules = 3'000;

// Converts "#/properties/a" to ".properties.a", which error messages append to the name of a request's field.
std::string dotted(std::string_view at) {
  std::string to(at.substr(1));
  std::ranges::replace(to, '/', '.');
  return to;
}

class SchemaCompiler {
 public:
  SchemaCompiler(Grammar& grammar, const Json& root, JsonSpaces spaces)
      : grammar_(grammar), root_(root), parts_(grammar, spaces), merger_(root, grammar.budget()) {}

  [[nodiscard]] Part build() {
    const Part text = value({.value = root_, .at = "#"});
    while (!todo_.empty()) {
      const auto [rule, schema] = std::move(todo_.front());
      todo_.pop_front();
      const core::WorkBudget::Place place(grammar_.budget(), dotted(schema.at));
      try {
        grammar_.define(rule, compile(schema));
      } catch (const core::WorkStopped&) {
        throw;
      } catch (const core::Error& error) {
        if (std::string_view(error.what()).starts_with('#')) throw;
        core::fail("{}: {}", core::printable(schema.at, 160), error.what());
      }
    }
    return text;
  }

 private:
  /// Returns a call of the rule that matches `schema`.
  [[nodiscard]] Part value(const Schema& schema) {
    if (schema.value->is(Kind::True)) return parts_.value();
    const auto [found, is_new] = rules_.try_emplace(schema.value, -1);
    if (!is_new) return grammar_.call(found->second);
    core::require(rules_.size() <= kMostRules, "{}: has more than {} subschemas", schema.at, kMostRules);
    Rule& rule = is_leaf(*schema.value) ? leaves_.try_emplace(written(*schema.value), -1).first->second : found->second;
    if (rule < 0) {
      rule = grammar_.declare(schema.at);
      todo_.emplace_back(rule, schema);
    }
    found->second = rule;
    return grammar_.call(rule);
  }

  // Returns true if the schema contains no other schema. Equal leaves share one rule, which saves states if, for
  // example, many properties are strings of at most 2,000 characters.
  [[nodiscard]] static bool is_leaf(const JsonValue& schema) {
    const auto is_plain = [](const Json& value) { return !value->is(Kind::Object) && !value->is(Kind::Array); };
    return std::ranges::all_of(schema.members, [&](const auto& member) {
      return !member.second->is(Kind::Object) && std::ranges::all_of(member.second->items, is_plain);
    });
  }

  [[nodiscard]] Part compile(const Schema& schema) {
    const JsonValue& json = *schema.value;
    // A schema that consists of a single $ref, anyOf or oneOf needs no merging.
    if (json.is(Kind::Object) && merger_.assertions(schema)->members.empty()) {
      const Json ref = json.at("$ref");
      const Json any = merger_.branches(schema, "anyOf");
      const Json one = merger_.branches(schema, "oneOf");
      if (int{ref != nullptr} + int{any != nullptr} + int{one != nullptr} == 1 && !json.at("allOf")) {
        if (ref) return value(merger_.target(ref->text, schema.at));
        if (one) merger_.require_disjoint(one, schema.at);
        std::vector<Part> ways;
        const Json& branches = any ? any : one;
        core::require(branches->items.size() <= kMostBranches, "{}: more than {} branches are not supported", schema.at,
                      kMostBranches);
        for (size_t i = 0; i < branches->items.size(); ++i) {
          ways.push_back(value(
              {.value = branches->items[i], .at = fmt::format("{}/{}/{}", schema.at, any ? "anyOf" : "oneOf", i)}));
        }
        return grammar_.choice(ways);
      }
    }
    std::vector<Part> ways;
    for (const Json& alternative : merger_.alternatives(schema)) add_ways(*alternative, schema.at, ways);
    return grammar_.choice(ways);
  }

  // Appends to `ways` the parts for values that satisfy all assertions in `all`.
  void add_ways(const JsonValue& all, const std::string& at, std::vector<Part>& ways) {
    if (all.members.empty()) {
      ways.push_back(parts_.value());
      return;
    }
    const TypeSet types = types_of(all);
    if (all.at("enum")) {
      ways.push_back(parts_.constants(fitting(all, at)));
      return;
    }
    if (types[Type::Null]) ways.push_back(grammar_.text("null"));
    if (types[Type::Boolean]) {
      ways.push_back(grammar_.text("true"));
      ways.push_back(grammar_.text("false"));
    }
    if (types[Type::Integer]) ways.push_back(number(all, !types[Type::Number], at));
    if (types[Type::String]) ways.push_back(string(all, at));
    if (types[Type::Array]) ways.push_back(array(all, at));
    if (types[Type::Object])
      ways.push_back(
          object_part({grammar_, parts_, merger_, [&](const Schema& schema) { return value(schema); }}, all, at));
  }

  // Returns the values in `enum` that satisfy all other assertions. Bounds are parsed once, since they may be long.
  [[nodiscard]] std::vector<Json> fitting(const JsonValue& all, const std::string& at) {
    std::vector<CharacterAutomaton> wanted;
    {
      const core::WorkBudget::Place place(grammar_.budget(), pattern_of(all));
      for (const Syntax& one : expressions(all, at, false)) wanted.emplace_back(one, grammar_.budget());
    }
    std::optional<std::pair<int64_t, int64_t>> length;
    std::optional<NumberRange> range;
    const auto refuse = [&](std::initializer_list<const char*> names) {
      for (const char* name : names) {
        core::require(!all.at(name), "{}: '{}' is not supported next to 'enum' or 'const'", at, name);
      }
    };
    const auto satisfies = [&](const JsonValue& value) {  // all assertions except `type`
      if (value.is(Kind::Array)) refuse({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"});
      if (value.is(Kind::Object)) {
        refuse(
            {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"});
      }
      if (value.is(Kind::String)) {
        for (const CharacterAutomaton& one : wanted) {
          if (!one.accepts(value.text)) return false;
        }
        const auto n =
            std::ranges::count_if(value.text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80; });
        if (!length) length = counts(all, "minLength", "maxLength", at);
        return length->first <= n && (length->second < 0 || n <= length->second);
      }
      if (value.is(Kind::Number)) {
        refuse({"multipleOf"});
        const Decimal number(value.text);
        if (!range) range = range_of(all, at);
        const auto& [least, most, multiple] = *range;
        if (least && compare(number, least->value) < (least->exclusive ? 1 : 0)) return false;
        if (most && compare(number, most->value) > (most->exclusive ? -1 : 0)) return false;
      }
      return true;
    };
    const TypeSet types = types_of(all);
    std::vector<Json> values;
    for (const Json& one : all.at("enum")->items) {
      grammar_.budget().spend(1 + one->text.size());
      if (has_type(*one, types) && satisfies(*one)) values.push_back(one);
    }
    return values;
  }

  [[nodiscard]] static NumberRange range_of(const JsonValue& all, const std::string& at) {
    NumberRange range;
    const auto take = [&](std::optional<NumberBound>& bound, const char* name, bool exclusive, int sign) {
      const Json json = all.at(name);
      if (!json) return;
      const Decimal value(json->text);
      core::require(std::abs(value.exponent) <= 400, "{}: '{}' is too large or too small", at, name);
      const int order = bound ? compare(value, bound->value) * sign : 1;
      if (order > 0 || (order == 0 && exclusive)) bound = NumberBound{.value = value, .exclusive = exclusive};
    };
    take(range.least, "minimum", false, 1);
    take(range.least, "exclusiveMinimum", true, 1);
    take(range.most, "maximum", false, -1);
    take(range.most, "exclusiveMaximum", true, -1);
    return range;
  }

  [[nodiscard]] Part number(const JsonValue& all, bool is_integer, const std::string& at) {
    NumberRange range = range_of(all, at);
    if (const Json multiple = all.at("multipleOf")) {
      core::require(is_integer, "{}: 'multipleOf' is only supported for integers", at);
      const Decimal value(multiple->text);
      core::require(value.is_integer() && !value.negative && !value.is_zero() && value.exponent <= 4,
                    "{}: 'multipleOf' must be an integer from 1 to 9999", at);
      range.multiple_of = static_cast<uint32_t>(value.to_integer().value());
    }
    return is_integer ? integer_part(grammar_, range) : number_part(grammar_, range);
  }

  [[nodiscard]] static const char* pattern_of(const JsonValue& all) {
    return all.at("pattern") ? ".pattern" : all.at("format") ? ".format" : "";
  }

  // Returns the syntax trees of `pattern` and `format`. A string must match all of them. `counted`: see format_regex().
  [[nodiscard]] std::vector<Syntax> expressions(const JsonValue& all, const std::string& at, bool counted) const {
    std::vector<Syntax> to;
    if (const Json pattern = all.at("pattern")) {
      for (const Json& one : pattern->is(Kind::Array) ? pattern->items : std::vector{pattern}) {
        to.push_back(parse_pattern(one->text, at, "pattern", grammar_.budget()));
      }
    }
    if (const Json format = all.at("format")) {
      const std::string expression = format_regex(format->text, counted).value();
      to.push_back(parse_regex(expression, RegexMatch::Whole, RegexDialect::Re2, grammar_.budget()));
    }
    return to;
  }

  [[nodiscard]] Part string(const JsonValue& all, const std::string& at) {
    const auto [least, most] = counts(all, "minLength", "maxLength", at);
    if (most >= 0 && most < least) return grammar_.choice({});
    const bool has_length = least > 0 || most >= 0;
    const core::WorkBudget::Place place(grammar_.budget(), pattern_of(all));
    const std::vector<Syntax> wanted = expressions(all, at, most >= 0);
    if (wanted.empty()) {
      if (!has_length) return parts_.string();
      return parts_.quotes(grammar_.repeat([&] { return parts_.character(); }, least, most));
    }
    const bool is_plain = all.at("format") != nullptr;  // strings of a format need no JSON escapes
    const CharacterPart characters = called(grammar_, [&](std::span<const CharacterRange> ranges) {
      return is_plain ? grammar_.characters(ranges) : json_characters(grammar_, ranges);
    });
    if (wanted.size() == 1 && !has_length) return parts_.quotes(forms::build(grammar_, wanted[0], characters));
    CharacterAutomaton texts(least, most, grammar_.budget());
    for (const Syntax& one : wanted) texts = texts.and_also(CharacterAutomaton(one, grammar_.budget()));
    return parts_.quotes(texts.build(grammar_, characters));
  }

  [[nodiscard]] Part array(const JsonValue& all, const std::string& at) {
    const Json prefix = all.at("prefixItems");
    const Json items = all.at("items");
    auto [least, most] = counts(all, "minItems", "maxItems", at);
    const auto n_prefix = static_cast<int64_t>(prefix ? prefix->items.size() : 0);
    if (items && items->is(Kind::False) && (most < 0 || most > n_prefix)) most = n_prefix;
    if (most >= 0 && most < least) return grammar_.choice({});
    if (all.at("uniqueItems") && most != 0 && most != 1) return distinct_items(all, least, most, at);
    const auto item = [&](int64_t i) {
      if (i < n_prefix) {
        return parts_.spaced(
            value({.value = prefix->items[static_cast<size_t>(i)], .at = fmt::format("{}/prefixItems/{}", at, i)}));
      }
      return parts_.spaced(items ? value({.value = items, .at = at + "/items"}) : parts_.value());
    };
    // `tail` first matches the items after the first n_first ones. The loop below then prepends items n_first - 1 to 0.
    const int64_t n_first = std::max<int64_t>(most < 0 ? n_prefix : std::min(n_prefix, most), most == 0 ? 0 : 1);
    const auto rest = [&] { return parts_.sequence({parts_.mark(','), item(n_prefix)}); };
    Part tail = grammar_.repeat(rest, std::max<int64_t>(least - n_first, 0), most < 0 ? -1 : most - n_first);
    for (int64_t i = n_first - 1; i >= 0; --i) {
      tail = i == 0 ? parts_.sequence({item(i), tail}) : parts_.sequence({parts_.mark(','), item(i), tail});
      if (i >= least) tail = grammar_.optional(tail);
    }
    return parts_.sequence({parts_.mark('['), tail, grammar_.text("]")});
  }

  // Returns all values that a schema allows; nullopt if there are too many or they can't be enumerated.
  [[nodiscard]] std::optional<std::vector<Json>> values_of(const Schema& schema) {
    constexpr int64_t kMostIntegers = 256;
    std::vector<Json> values;
    for (const Json& alternative : merger_.alternatives(schema)) {
      const JsonValue& all = *alternative;
      const TypeSet types = types_of(all);
      if (all.at("enum")) {
        const std::vector<Json> some = fitting(all, schema.at);
        values.insert(values.end(), some.begin(), some.end());
        continue;
      }
      if (types[Type::Number] || types[Type::String] || types[Type::Array] || types[Type::Object]) return std::nullopt;
      if (types[Type::Null]) values.push_back(make_json({.kind = Kind::Null}));
      if (types[Type::Boolean]) values.push_back(make_json({.kind = Kind::True}));
      if (types[Type::Boolean]) values.push_back(make_json({.kind = Kind::False}));
      if (!types[Type::Integer]) continue;
      const NumberRange range = range_of(all, schema.at);
      if (!range.least || !range.most || all.at("multipleOf")) return std::nullopt;
      const std::optional<int64_t> low = range.least->value.to_integer();
      const std::optional<int64_t> high = range.most->value.to_integer();
      if (!low || !high || *high - *low > kMostIntegers) return std::nullopt;
      const int64_t end = *high + (range.most->exclusive ? 0 : 1);
      for (int64_t i = *low + (range.least->exclusive ? 1 : 0); i < end; ++i) {
        values.push_back(make_json({.kind = Kind::Number, .text = std::to_string(i)}));
      }
    }
    return values;
  }

  // Returns the part for arrays of distinct items, with one rule for each set of values that the items so far can form.
  [[nodiscard]] Part distinct_items(const JsonValue& all, int64_t least, int64_t most, const std::string& at) {
    constexpr size_t kMostWays = 16'384;
    std::vector<Json> known;
    std::unordered_map<std::string, uint16_t> numbers;  // maps the identity() of a value to its index in `known`
    const auto numbers_of = [&](const Schema& schema) {
      std::vector<uint16_t> some;
      const auto values = values_of(schema);
      core::require(
          values.has_value() && values->size() < kMostWays,
          "{}: 'uniqueItems' is only supported for items with few values (enum, const, booleans, integers with "
          "'minimum' and 'maximum'), or with 'maxItems' 1",
          at);
      for (const Json& value : *values) {
        grammar_.budget().spend(1 + written(*value).size());
        const auto [found, is_new] = numbers.try_emplace(identity(*value), static_cast<uint16_t>(known.size()));
        if (is_new) known.push_back(value);
        if (std::ranges::find(some, found->second) == some.end()) some.push_back(found->second);
      }
      return some;
    };
    const Json prefix = all.at("prefixItems");
    const size_t n_prefix = prefix ? prefix->items.size() : 0;
    std::vector<std::vector<uint16_t>> first;
    for (size_t i = 0; i < n_prefix; ++i) {
      first.push_back(numbers_of({.value = prefix->items[i], .at = fmt::format("{}/prefixItems/{}", at, i)}));
    }
    std::vector<uint16_t> others;
    if (most < 0 || std::cmp_greater(most, n_prefix)) {
      const Json items = all.at("items");
      others = numbers_of({.value = items ? items : make_json({.kind = Kind::True}), .at = at + "/items"});
    }
    std::vector<Rule> rules;
    for (const Json& value : known) {
      rules.push_back(grammar_.declare());
      grammar_.define(rules.back(), parts_.spaced(parts_.constants(std::array{value})));
    }
    using Used = std::vector<uint16_t>;  // sorted indices of the values that the array contains so far
    std::map<Used, Rule> rests;          // rules for the rest of the array
    std::deque<Used> todo;
    const auto rest = [&](const Used& used) {
      const auto [found, is_new] = rests.try_emplace(used, -1);
      if (is_new) {
        found->second = grammar_.declare();
        todo.push_back(used);
      }
      return grammar_.call(found->second);
    };
    const Part text = rest({});
    size_t n_ways = 0;
    while (!todo.empty()) {
      const Used used = std::move(todo.front());
      todo.pop_front();
      std::vector<Part> ways;
      if (std::cmp_greater_equal(used.size(), least)) ways.push_back(grammar_.empty());
      const bool is_full = most >= 0 && std::cmp_greater_equal(used.size(), most);
      for (const uint16_t one : is_full ? Used() : used.size() < n_prefix ? first[used.size()] : others) {
        Used more = used;
        const auto place = std::ranges::lower_bound(more, one);
        if (place != more.end() && *place == one) continue;
        more.insert(place, one);
        core::require(++n_ways <= kMostWays,
                      "{}: 'uniqueItems' has too many combinations of {} values; set a smaller 'maxItems'", at,
                      known.size());
        const Part item = parts_.sequence({grammar_.call(rules[one]), rest(more)});
        ways.push_back(used.empty() ? item : parts_.sequence({parts_.mark(','), item}));
      }
      grammar_.define(rests.at(used), grammar_.choice(ways));
    }
    return parts_.sequence({parts_.mark('['), text, grammar_.text("]")});
  }

  Grammar& grammar_;
  Json root_;
  JsonParts parts_;
  SchemaMerger merger_;
  std::unordered_map<Json, Rule> rules_;
  std::unordered_map<std::string, Rule> leaves_;  // rules of leaf schemas, by serialized schema
  std::deque<std::pair<Rule, Schema>> todo_;
};

}  // namespace

Part json_schema_part(Grammar& grammar, std::string_view schema, JsonSpaces spaces) {
  return SchemaCompiler(grammar, read_json(schema, grammar.budget()), spaces).build();
}

Part json_object_part(Grammar& grammar, JsonSpaces spaces) { return JsonParts(grammar, spaces).object(); }

}  // namespace folio::infer::forms
