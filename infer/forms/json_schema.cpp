// A JSON schema as rules of a grammar: one for each schema in it that can be reached. Properties come in the order of
// the schema, then others. Keys and the values of an enum are written in one way (json_value.h, json_quoted); other
// keys than those of the schema may repeat, where all of them have to fit the same schema.
#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "infer/forms/forms.h"
#include "infer/forms/json_format.h"
#include "infer/forms/json_merge.h"
#include "infer/forms/json_number.h"
#include "infer/forms/json_string.h"
#include "infer/forms/json_value.h"
#include "infer/forms/regex.h"

namespace folio::infer::forms {
namespace {

using Kind = JsonValue::Kind;
using Part = Grammar::Part;
using Rule = Grammar::Rule;

constexpr size_t kMostProperties = 2'000;  // of an object
constexpr size_t kMostRules = 20'000;
constexpr int64_t kMostCount = 1'000'000;  // of items, of characters
const CharacterRanges kAllCharacters{{0, kLastCodePoint}};

// Parts that every schema is built of.
class JsonParts {
 public:
  JsonParts(Grammar& grammar, bool free_whitespace) : grammar_(grammar) {
    if (!free_whitespace) return;
    space_ = grammar_.declare();
    grammar_.define(
        *space_,
        grammar_.repeat(
            [&] {
              return grammar_.choice(std::array{grammar_.bytes('\t', '\n'), grammar_.text("\r"), grammar_.text(" ")});
            },
            0, -1));
  }

  [[nodiscard]] Grammar& grammar() { return grammar_; }

  [[nodiscard]] Part sequence(std::initializer_list<Part> parts) {
    return grammar_.sequence(std::span(parts.begin(), parts.size()));
  }
  /// With the spaces that may stand behind it.
  [[nodiscard]] Part spaced(Part part) { return space_ ? sequence({part, grammar_.call(*space_)}) : part; }
  [[nodiscard]] Part mark(const char* text) { return spaced(grammar_.text(text)); }
  [[nodiscard]] Part member(Part key, Part value) { return sequence({spaced(key), mark(":"), spaced(value)}); }

  [[nodiscard]] Part string() {
    return shared(string_, [&] {
      return quotes(grammar_.repeat([&] { return json_characters(grammar_, kAllCharacters); }, 0, -1));
    });
  }
  [[nodiscard]] Part character() {
    return shared(character_, [&] { return json_characters(grammar_, kAllCharacters); });
  }
  [[nodiscard]] Part quotes(Part inner) {
    return grammar_.sequence(std::array{grammar_.text("\""), inner, grammar_.text("\"")});
  }

  /// Any value.
  [[nodiscard]] Part value() {
    return shared(value_, [&] {
      return grammar_.choice(std::array{grammar_.text("null"), grammar_.text("true"), grammar_.text("false"), string(),
                                        number_part(grammar_, {}), array(), object()});
    });
  }
  [[nodiscard]] Part array() {
    return shared(array_, [&] { return enclosed("[", "]", [&] { return spaced(value()); }); });
  }
  [[nodiscard]] Part object() {
    return shared(object_, [&] { return enclosed("{", "}", [&] { return member(string(), value()); }); });
  }

  /// A value that is given, written in one way but for spaces.
  [[nodiscard]] Part constant(const JsonValue& value) {
    if (!space_ || (value.items.empty() && value.members.empty())) return grammar_.text(written(value));
    std::vector<Part> all{mark(value.is(Kind::Array) ? "[" : "{")};
    const auto add = [&](Part part) {
      if (all.size() > 1) all.push_back(mark(","));
      all.push_back(part);
    };
    for (const Json& item : value.items) add(spaced(constant(*item)));
    for (const auto& [key, member_value] : value.members)
      add(member(grammar_.text(json_quoted(key)), constant(*member_value)));
    all.push_back(grammar_.text(value.is(Kind::Array) ? "]" : "}"));
    return grammar_.sequence(all);
  }

 private:
  template <typename Build>
  Part shared(std::optional<Rule>& rule, const Build& build) {
    if (!rule) {
      rule = grammar_.declare();
      grammar_.define(*rule, build());
    }
    return grammar_.call(*rule);
  }

  template <typename Item>
  Part enclosed(const char* open, const char* close, const Item& item) {
    const Part rest = grammar_.repeat([&] { return sequence({mark(","), item()}); }, 0, -1);
    return sequence({mark(open), grammar_.optional(sequence({item(), rest})), grammar_.text(close)});
  }

  Grammar& grammar_;
  std::optional<Rule> space_, string_, character_, value_, array_, object_;
};

class SchemaCompiler {
 public:
  SchemaCompiler(Grammar& grammar, const Json& root, bool free_whitespace)
      : grammar_(grammar), root_(root), parts_(grammar, free_whitespace), merger_(root) {}

  [[nodiscard]] Part build() {
    const Part text = value({.value = root_, .at = "#"});
    while (!todo_.empty()) {
      const auto [rule, schema] = std::move(todo_.front());
      todo_.pop_front();
      try {
        grammar_.define(rule, compile(schema));
      } catch (const core::Error& error) {
        if (std::string_view(error.what()).starts_with('#')) throw;
        core::fail("{}: {}", core::printable(schema.at, 160), error.what());
      }
    }
    return text;
  }

 private:
  /// A call of the rule for a schema.
  [[nodiscard]] Part value(const Schema& schema) {
    const auto [found, is_new] = rules_.try_emplace(schema.value, -1);
    if (is_new) {
      core::require(rules_.size() <= kMostRules, "{}: there are more than {} schemas", schema.at, kMostRules);
      found->second = grammar_.declare();
      todo_.emplace_back(found->second, schema);
    }
    return grammar_.call(found->second);
  }

  [[nodiscard]] Part compile(const Schema& schema) {
    const JsonValue& json = *schema.value;
    // A reference or a choice that stands alone needs nothing merged.
    if (json.is(Kind::Object) && merger_.assertions(schema)->members.empty()) {
      const Json ref = json.at("$ref");
      const Json any = json.at("anyOf");
      const Json one = json.at("oneOf");
      if (int{ref != nullptr} + int{any != nullptr} + int{one != nullptr} == 1 && !json.at("allOf")) {
        if (ref) return value(merger_.target(ref->text, schema.at));
        if (one) merger_.require_disjoint(one, schema.at);
        std::vector<Part> ways;
        const Json& branches = any ? any : one;
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

  // The ways to write a value that all assertions hold for.
  void add_ways(const JsonValue& all, const std::string& at, std::vector<Part>& ways) {
    if (all.members.empty()) {
      ways.push_back(parts_.value());
      return;
    }
    const TypeSet types = types_of(all);
    if (const Json values = all.at("enum")) {
      for (const Json& one : values->items) {
        if (has_type(*one, types) && holds_for(all, *one, at)) ways.push_back(parts_.constant(*one));
      }
      return;
    }
    if (types.null) ways.push_back(grammar_.text("null"));
    if (types.boolean) {
      ways.push_back(grammar_.text("true"));
      ways.push_back(grammar_.text("false"));
    }
    if (types.integer) ways.push_back(number(all, !types.number, at));
    if (types.string) ways.push_back(string(all, at));
    if (types.array) ways.push_back(array(all, at));
    if (types.object) ways.push_back(object(all, at));
  }

  // Whether the assertions besides its type hold for a value of an enum.
  [[nodiscard]] static bool holds_for(const JsonValue& all, const JsonValue& value, const std::string& at) {
    const auto refuse = [&](std::initializer_list<const char*> names) {
      for (const char* name : names) {
        core::require(!all.at(name), "{}: '{}' is not supported beside 'enum' or 'const'", at, name);
      }
    };
    if (value.is(Kind::Array)) refuse({"items", "prefixItems", "minItems", "maxItems"});
    if (value.is(Kind::Object)) {
      refuse({"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"});
    }
    if (value.is(Kind::String)) {
      refuse({"pattern", "format"});
      const auto n =
          std::ranges::count_if(value.text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80; });
      const auto [least, most] = counts(all, "minLength", "maxLength", at);
      return least <= n && (most < 0 || n <= most);
    }
    if (value.is(Kind::Number)) {
      refuse({"multipleOf"});
      const NumberRange range = range_of(all, at);
      const Decimal number(value.text);
      if (range.least && compare(number, range.least->value) < (range.least->exclusive ? 1 : 0)) return false;
      if (range.most && compare(number, range.most->value) > (range.most->exclusive ? -1 : 0)) return false;
    }
    return true;
  }

  // The least and the most of something; -1 where there is no most.
  [[nodiscard]] static std::pair<int64_t, int64_t> counts(const JsonValue& all, const char* least, const char* most,
                                                          const std::string& at) {
    const auto count = [&](const char* name, int64_t otherwise) {
      const Json json = all.at(name);
      if (!json) return otherwise;
      const Decimal number(json->text);
      core::require(number.exponent <= 7, "{}: '{}' is more than {}", at, name, kMostCount);
      std::string digits = number.digits;
      digits.resize(static_cast<size_t>(std::max<int64_t>(number.exponent, 1)), '0');
      int64_t n = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), n);
      return n;
    };
    return {count(least, 0), count(most, -1)};
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
                    "{}: 'multipleOf' is only supported from 1 to 9999, for integers", at);
      std::string digits = value.digits;
      digits.resize(static_cast<size_t>(value.exponent), '0');
      std::from_chars(digits.data(), digits.data() + digits.size(), range.multiple_of);
    }
    return is_integer ? integer_part(grammar_, range) : number_part(grammar_, range);
  }

  [[nodiscard]] Part string(const JsonValue& all, const std::string& at) {
    const Json pattern = all.at("pattern");
    const Json format = all.at("format");
    const auto [least, most] = counts(all, "minLength", "maxLength", at);
    const bool has_length = least > 0 || most >= 0;
    core::require(int{pattern != nullptr} + int{format != nullptr} + int{has_length} <= 1,
                  "{}: 'pattern', 'format' and a length are not supported together", at);
    if (format) {
      const auto regex = format_regex(format->text);
      core::require(regex.has_value(), "{}: 'format' \"{}\" is not supported", at, core::printable(format->text));
      return parts_.quotes(regex_part(grammar_, *regex));
    }
    if (pattern) return parts_.quotes(pattern_part(pattern->text, at));
    if (!has_length) return parts_.string();
    if (most >= 0 && most < least) return grammar_.choice({});
    return parts_.quotes(grammar_.repeat([&] { return parts_.character(); }, least, most));
  }

  // A string in which the pattern is found.
  [[nodiscard]] Part pattern_part(const std::string& pattern, const std::string& at) {
    const auto characters = [&](std::span<const CharacterRange> ranges) { return json_characters(grammar_, ranges); };
    try {
      return forms::build(grammar_, parse_regex(pattern, RegexMatch::Search), characters);
    } catch (const core::Error& error) {
      core::fail("{}: 'pattern': {}", at, error.what());
    }
  }

  [[nodiscard]] Part array(const JsonValue& all, const std::string& at) {
    const Json prefix = all.at("prefixItems");
    const Json items = all.at("items");
    auto [least, most] = counts(all, "minItems", "maxItems", at);
    const auto n_prefix = static_cast<int64_t>(prefix ? prefix->items.size() : 0);
    if (items && items->is(Kind::False) && (most < 0 || most > n_prefix)) most = n_prefix;
    if (most >= 0 && most < least) return grammar_.choice({});
    const auto item = [&](int64_t i) {
      if (i < n_prefix) {
        return parts_.spaced(
            value({.value = prefix->items[static_cast<size_t>(i)], .at = fmt::format("{}/prefixItems/{}", at, i)}));
      }
      return parts_.spaced(items ? value({.value = items, .at = at + "/items"}) : parts_.value());
    };
    // What stands behind the first items, of which there are `n_first`: from the last of them back.
    const int64_t n_first = std::max<int64_t>(most < 0 ? n_prefix : std::min(n_prefix, most), most == 0 ? 0 : 1);
    const auto rest = [&] { return parts_.sequence({parts_.mark(","), item(n_prefix)}); };
    Part tail = grammar_.repeat(rest, std::max<int64_t>(least - n_first, 0), most < 0 ? -1 : most - n_first);
    for (int64_t i = n_first - 1; i >= 0; --i) {
      tail = i == 0 ? parts_.sequence({item(i), tail}) : parts_.sequence({parts_.mark(","), item(i), tail});
      if (i >= least) tail = grammar_.optional(tail);
    }
    return parts_.sequence({parts_.mark("["), tail, grammar_.text("]")});
  }

  [[nodiscard]] Part object(const JsonValue& all, const std::string& at) {
    struct Property {
      std::string name;
      Schema schema;
      bool required;
    };
    const Json declared = all.at("properties");
    const Json required = all.at("required");
    const Json additional = all.at("additionalProperties");
    core::require(!all.at("patternProperties"), "{}: 'patternProperties' is not supported", at);
    const Schema other{.value = additional ? additional : make_json({.kind = Kind::True}),
                       .at = at + "/additionalProperties"};
    std::unordered_set<std::string> needed;
    if (required) {
      for (const Json& name : required->items) needed.insert(name->text);
    }
    std::vector<Property> properties;
    std::unordered_set<std::string> known;
    const auto add = [&](const std::string& name, const Schema& schema) {
      properties.push_back({.name = name, .schema = schema, .required = needed.contains(name)});
      known.insert(name);
    };
    if (declared) {
      for (const auto& [name, schema] : declared->members) {
        add(name, {.value = schema, .at = fmt::format("{}/properties/{}", at, core::printable(name, 60))});
      }
    }
    if (required) {
      for (const Json& name : required->items) {
        if (!known.contains(name->text)) add(name->text, other);
      }
    }
    core::require(properties.size() <= kMostProperties, "{}: it has more than {} properties", at, kMostProperties);
    const bool is_open = !other.value->is(Kind::False);
    const auto n_required = static_cast<int64_t>(needed.size());
    const auto [least, most] = counts(all, "minProperties", "maxProperties", at);
    core::require(least <= n_required, "{}: 'minProperties' is only supported up to the number of required properties",
                  at);
    core::require(most < 0 || (!is_open && most >= static_cast<int64_t>(properties.size())),
                  "{}: 'maxProperties' is only supported where no object can have more properties", at);

    // Rules for what may follow the first i properties, if something stands before: from the last back, so that the
    // grammar is small and a rule is known when another calls it.
    const Rule extra = grammar_.declare();
    std::vector<std::string> names;
    for (const Property& property : properties) names.push_back(property.name);
    grammar_.define(extra, is_open ? parts_.member(other_key(grammar_, names), value(other)) : grammar_.choice({}));
    Rule tail = grammar_.declare();
    grammar_.define(tail, grammar_.repeat(
                              [&] {
                                return parts_.sequence({parts_.mark(","), grammar_.call(extra)});
                              },
                              0, -1));
    // What the object holds: it begins with one of the properties up to the first that is required, or with another.
    std::vector<Part> ways;
    const auto first_required = static_cast<size_t>(
        std::ranges::find_if(properties, [](const Property& property) { return property.required; }) -
        properties.begin());
    if (first_required == properties.size()) {
      ways.push_back(grammar_.empty());
      ways.push_back(parts_.sequence({grammar_.call(extra), grammar_.call(tail)}));
    }
    for (size_t i = properties.size(); i-- > 0;) {
      const Property& property = properties[i];
      const Rule member = grammar_.declare();
      grammar_.define(member, parts_.member(grammar_.text(json_quoted(property.name)), value(property.schema)));
      if (i <= first_required) ways.push_back(parts_.sequence({grammar_.call(member), grammar_.call(tail)}));
      if (i == 0) break;
      const Rule before = grammar_.declare();
      const Part one = parts_.sequence({parts_.mark(","), grammar_.call(member)});
      grammar_.define(before, parts_.sequence({property.required ? one : grammar_.optional(one), grammar_.call(tail)}));
      tail = before;
    }
    return parts_.sequence({parts_.mark("{"), grammar_.choice(ways), grammar_.text("}")});
  }

  Grammar& grammar_;
  Json root_;
  JsonParts parts_;
  SchemaMerger merger_;
  std::unordered_map<Json, Rule> rules_;
  std::deque<std::pair<Rule, Schema>> todo_;
};

}  // namespace

Part json_schema_part(Grammar& grammar, std::string_view schema, bool free_whitespace) {
  return SchemaCompiler(grammar, read_json(schema), free_whitespace).build();
}

Part json_object_part(Grammar& grammar, bool free_whitespace) { return JsonParts(grammar, free_whitespace).object(); }

}  // namespace folio::infer::forms
