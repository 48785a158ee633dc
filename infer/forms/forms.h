// What the text of an answer has to be, as people say it: a regular expression, a grammar, a JSON schema, one of some
// texts. Each becomes a Grammar (grammar.h), and with a vocabulary a Form (form.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"
#include "infer/forms/form.h"
#include "infer/forms/grammar.h"

namespace folio::infer::forms {

struct CallsForm;

/// Whitespace in JSON.
enum class JsonSpaces : uint8_t {
  None,
  AfterMarks,  ///< one space after each comma and colon, as Python's json.dumps and chat templates write it
  Anywhere     ///< where JSON allows it, as much as the model likes
};

struct FormOptions {
  enum class Kind : uint8_t { None, Regex, Grammar, JsonSchema, JsonObject, Choice, Calls };
  Kind kind = Kind::None;
  std::string text{};                        ///< the expression, the grammar, or the schema, as JSON
  std::vector<std::string> choices{};        ///< of Choice
  std::shared_ptr<const CallsForm> calls{};  ///< of Calls (calls.h)
  JsonSpaces spaces = JsonSpaces::None;      ///< of JSON
  /// The form begins behind the reasoning, which is any text.
  data::Thinking thinking = data::Thinking::None;
};

// What these don't support is refused by name, and never ignored. All throw core::Error of one line.

/// The texts that the whole expression matches: RE2's syntax without its flags and its empty assertions but ^ at the
/// beginning and $ at the end. In a text of UTF-8 . is any character but a line's end.
[[nodiscard]] Grammar::Part regex_part(Grammar& grammar, std::string_view expression);

/// A grammar as llama.cpp writes it (GBNF), whose rule "root" is the text.
[[nodiscard]] Grammar::Part gbnf_part(Grammar& grammar, std::string_view text);

/// The JSON texts that a schema takes. Errors begin with the place in the schema, as a JSON pointer: "#/properties/a".
[[nodiscard]] Grammar::Part json_schema_part(Grammar& grammar, std::string_view schema, JsonSpaces spaces);

/// Any JSON object.
[[nodiscard]] Grammar::Part json_object_part(Grammar& grammar, JsonSpaces spaces);

/// For a vocabulary. `options` is none of kind None. Throws core::Error also if no text fits, or if the vocabulary
/// can't write any; core::TooMuchWork, with the place in the options, if compiling needs more steps than `budget` has.
[[nodiscard]] std::shared_ptr<Form> make_form(const FormOptions& options, std::shared_ptr<const TokenTree> tokens,
                                              const core::WorkBudget& budget = core::WorkBudget());

}  // namespace folio::infer::forms
