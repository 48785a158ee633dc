// Constraints on an output (structured output): a regular expression, a GBNF grammar, a JSON schema or a list of
// choices. Each is compiled to a Grammar (grammar.h) and, for a vocabulary, to a Form (form.h).
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

/// Whitespace allowed in JSON output.
enum class JsonSpaces : uint8_t {
  None,
  AfterMarks,  ///< one space after each comma and colon, as Python's json.dumps and chat templates write it
  Anywhere     ///< any amount, wherever JSON allows it
};

struct FormOptions {
  enum class Kind : uint8_t { None, Regex, Grammar, JsonSchema, JsonObject, Choice, Calls };
  Kind kind = Kind::None;
  std::string text{};                        ///< the regular expression, GBNF grammar or JSON schema
  std::vector<std::string> choices{};        ///< Choice: the allowed outputs
  std::shared_ptr<const CallsForm> calls{};  ///< Calls: the functions and their call format; otherwise null
  JsonSpaces spaces = JsonSpaces::None;      ///< whitespace in JSON output
  /// The kind of reasoning before the answer. The constraint starts after the reasoning, which may be any text.
  data::Thinking thinking = data::Thinking::None;
};

// An unsupported feature is never ignored: each function throws a one-line core::Error that names it.

/// Returns the part for a regular expression in RE2's syntax without flags. The only supported assertions are ^ at the
/// beginning and $ at the end. `.` matches any UTF-8 character except a newline.
[[nodiscard]] Grammar::Part regex_part(Grammar& grammar, std::string_view expression);

/// Returns the part for a grammar in llama.cpp's GBNF format, whose rule "root" matches the whole output.
[[nodiscard]] Grammar::Part gbnf_part(Grammar& grammar, std::string_view text);

/// Returns the part for JSON that is valid for `schema`. Errors begin with a JSON pointer, such as "#/properties/a".
[[nodiscard]] Grammar::Part json_schema_part(Grammar& grammar, std::string_view schema, JsonSpaces spaces);

/// Returns the part that matches any JSON object.
[[nodiscard]] Grammar::Part json_object_part(Grammar& grammar, JsonSpaces spaces);

/// Compiles a constraint of any kind except None for a vocabulary. Throws core::Error if it is invalid or no sequence
/// of tokens can satisfy it. Throws core::TooMuchWork if compiling exceeds `budget`; its place() is the request field,
/// or the part of it, that needs too much work.
[[nodiscard]] std::shared_ptr<Form> make_form(const FormOptions& options, std::shared_ptr<const TokenTree> tokens,
                                              const core::WorkBudget& budget = core::WorkBudget());

}  // namespace folio::infer::forms
