#include "infer/forms/json_parts.h"

#include <array>

#include "infer/forms/json_number.h"
#include "infer/forms/json_string.h"

namespace folio::infer::forms {
namespace {

const CharacterRanges kAllCharacters{{0, kLastCodePoint}};

}  // namespace

JsonParts::JsonParts(Grammar& grammar, JsonSpaces spaces) : grammar_(grammar), spaces_(spaces) {
  if (spaces_ != JsonSpaces::Anywhere) return;
  space_ = grammar_.declare();
  const auto one = [&] {
    return grammar_.choice(std::array{grammar_.bytes('\t', '\n'), grammar_.text("\r"), grammar_.text(" ")});
  };
  grammar_.define(*space_, grammar_.repeat(one, 0, -1));
}

Grammar::Part JsonParts::mark(char mark) {
  const bool has_space = spaces_ == JsonSpaces::AfterMarks && (mark == ',' || mark == ':');
  return spaced(grammar_.text(has_space ? std::string{mark, ' '} : std::string{mark}));
}

Grammar::Part JsonParts::character() {
  return shared(character_, [&] { return json_characters(grammar_, kAllCharacters); });
}

Grammar::Part JsonParts::string() {
  return shared(string_, [&] {
    return quotes(grammar_.repeat([&] { return json_characters(grammar_, kAllCharacters); }, 0, -1));
  });
}

Grammar::Part JsonParts::array() {
  return shared(array_, [&] { return enclosed('[', ']', [&] { return spaced(value()); }); });
}

Grammar::Part JsonParts::object() {
  return shared(object_, [&] { return enclosed('{', '}', [&] { return member(string(), value()); }); });
}

Grammar::Part JsonParts::value() {
  return shared(value_, [&] {
    return grammar_.choice(std::array{grammar_.text("null"), grammar_.text("true"), grammar_.text("false"), string(),
                                      number_part(grammar_, {}), array(), object()});
  });
}

Grammar::Part JsonParts::constants(std::span<const Json> values) {
  std::vector<std::string> plain;
  std::vector<Part> ways;
  for (const Json& value : values) {
    if (spaces_ != JsonSpaces::None && !(value->items.empty() && value->members.empty())) {
      ways.push_back(constant(*value));
    } else {
      plain.push_back(written(*value));
    }
  }
  if (!plain.empty()) ways.push_back(grammar_.texts(std::move(plain)));
  return grammar_.choice(ways);
}

Grammar::Part JsonParts::constant(const JsonValue& value) {
  if (spaces_ == JsonSpaces::None || (value.items.empty() && value.members.empty()))
    return grammar_.text(written(value));
  const bool is_array = value.is(JsonValue::Kind::Array);
  std::vector<Part> all{mark(is_array ? '[' : '{')};
  const auto add = [&](Part part) {
    if (all.size() > 1) all.push_back(mark(','));
    all.push_back(part);
  };
  for (const Json& item : value.items) add(spaced(constant(*item)));
  for (const auto& [key, one] : value.members) add(member(grammar_.text(json_quoted(key)), constant(*one)));
  all.push_back(grammar_.text(is_array ? "]" : "}"));
  return grammar_.sequence(all);
}

Grammar::Part JsonParts::shared(std::optional<Grammar::Rule>& rule, const Grammar::Build& build) {
  if (!rule) {
    rule = grammar_.declare();
    grammar_.define(*rule, build());
  }
  return grammar_.call(*rule);
}

Grammar::Part JsonParts::enclosed(char open, char close, const Grammar::Build& item) {
  const Part rest = grammar_.repeat([&] { return sequence({mark(','), item()}); }, 0, -1);
  return sequence({mark(open), grammar_.optional(sequence({item(), rest})), grammar_.text(std::string{close})});
}

}  // namespace folio::infer::forms
