// Grammar parts that all JSON schemas share. Each is built once, as a rule, and then called.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "infer/forms/forms.h"
#include "infer/forms/grammar.h"
#include "infer/forms/json_value.h"

namespace folio::infer::forms {

class JsonParts {
 public:
  using Part = Grammar::Part;

  JsonParts(Grammar& grammar, JsonSpaces spaces);

  [[nodiscard]] Part sequence(std::initializer_list<Part> parts) {
    return grammar_.sequence(std::span(parts.begin(), parts.size()));
  }
  /// Returns `part` followed by the whitespace allowed after it.
  [[nodiscard]] Part spaced(Part part) { return space_ ? sequence({part, grammar_.call(*space_)}) : part; }
  /// Returns the part for a bracket, brace, comma or colon, and the whitespace allowed after it.
  [[nodiscard]] Part mark(char mark);
  [[nodiscard]] Part quotes(Part inner) { return sequence({grammar_.text("\""), inner, grammar_.text("\"")}); }
  [[nodiscard]] Part member(Part key, Part value) { return sequence({spaced(key), mark(':'), spaced(value)}); }

  /// Returns the part for any character of a JSON string, raw or escaped.
  [[nodiscard]] Part character();
  [[nodiscard]] Part string();
  [[nodiscard]] Part array();
  [[nodiscard]] Part object();
  [[nodiscard]] Part value();

  /// Returns the part for any of `values`. Each value has one spelling, apart from whitespace.
  [[nodiscard]] Part constants(std::span<const Json> values);

 private:
  [[nodiscard]] Part constant(const JsonValue& value);
  [[nodiscard]] Part shared(std::optional<Grammar::Rule>& rule, const Grammar::Build& build);
  [[nodiscard]] Part enclosed(char open, char close, const Grammar::Build& item);

  Grammar& grammar_;
  JsonSpaces spaces_;
  std::optional<Grammar::Rule> space_, string_, character_, value_, array_, object_;
};

}  // namespace folio::infer::forms
