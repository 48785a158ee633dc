#include "infer/forms/calls.h"

#include <fmt/format.h>

#include <array>

#include "core/error.h"
#include "infer/forms/character_automaton.h"
#include "infer/forms/regex.h"

namespace folio::infer::forms {
namespace {

using Part = Grammar::Part;
using Kind = data::CallPiece::Kind;

// Returns a grammar part that matches text up to and including the first `trigger` if `with` is true, and text without
// a trigger otherwise. If `at_start`, a trigger counts only at the start of the text.
Part text(Grammar& grammar, const std::string& trigger, bool at_start, bool with) {
  if (at_start && with) return grammar.text(trigger);
  const std::string any = R"([\x00-\xff]*)";
  // The server's reader drops reasoning and the newlines after it, so a call may begin after these, too.
  std::string found =
      at_start ? fmt::format(R"(([ \t\r\n]*{}{}{})?\n*)", data::kThinkBegin, any, data::kThinkEnd) : any;
  for (const char c : trigger) found += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  const auto texts = [&](const std::string& expression) {
    return CharacterAutomaton(parse_regex(expression), grammar.budget());
  };
  const CharacterAutomaton wanted = texts(with ? found : any);
  return wanted.but_not(texts(with ? found + any + R"([\x00-\xff])" : found + any)).build_bytes(grammar);
}

Part call(Grammar& grammar, const data::ToolFormat& format, const CallsForm::Function& function) {
  std::vector<Part> parts;
  for (const data::CallPiece& piece : format.call) {
    switch (piece.kind) {
      case Kind::Text:
        parts.push_back(grammar.text(piece.text));
        break;
      case Kind::Name:
        parts.push_back(grammar.text(function.name));
        break;
      case Kind::Arguments: {
        const core::WorkBudget::Place place(grammar.budget(), function.place);
        try {
          parts.push_back(json_schema_part(grammar, function.parameters,
                                           format.has_spaces ? JsonSpaces::AfterMarks : JsonSpaces::None));
        } catch (const core::WorkStopped&) {
          throw;
        } catch (const core::Error& error) {
          core::fail("function {}: {}", function.name, error.what());
        }
        break;
      }
      case Kind::Id:
        parts.push_back(regex_part(grammar, fmt::format("[a-zA-Z0-9]{{{}}}", data::kCallIdLength)));
        break;
    }
  }
  return grammar.sequence(parts);
}

}  // namespace

Part reasoned_part(Grammar& grammar, data::Thinking thinking, Part answer) {
  using enum data::Thinking;
  if (thinking == None) return answer;
  const Grammar::Rule rule = grammar.declare();
  grammar.define(rule, answer);
  const Part newlines = grammar.repeat([&] { return grammar.text("\n"); }, 0, 2);
  const Part reasoned = grammar.sequence(
      std::array{text(grammar, std::string(data::kThinkEnd), false, true), newlines, grammar.call(rule)});
  if (thinking == Begun) return reasoned;
  return grammar.choice(
      std::array{grammar.call(rule), grammar.sequence(std::array{grammar.text(data::kThinkBegin), reasoned})});
}

Part calls_part(Grammar& grammar, const CallsForm& form) {
  const data::ToolFormat& format = form.format;
  const Grammar::Rule rule = grammar.declare("call");
  std::vector<Part> functions;
  for (const auto& function : form.functions) functions.push_back(call(grammar, format, function));
  grammar.define(rule, grammar.choice(functions));
  const auto another = [&] { return grammar.sequence(std::array{grammar.text(format.separator), grammar.call(rule)}); };
  const bool several = form.several && format.several;
  const Part calls = grammar.sequence(
      std::array{grammar.call(rule), grammar.repeat(another, 0, several ? -1 : 0), grammar.text(format.closing)});
  if (!form.has_answer) return grammar.sequence(std::array{grammar.text(format.before + format.opening), calls});
  const Part rest = grammar.sequence(std::array{grammar.text(format.opening.substr(format.trigger.size())), calls});
  const auto any = [&](bool with) { return text(grammar, format.trigger, format.only_at_start, with); };
  if (form.answer.kind == FormOptions::Kind::None) {
    return grammar.choice(std::array{any(false), grammar.sequence(std::array{any(true), rest})});
  }
  return grammar.choice(
      std::array{part_of(grammar, form.answer), grammar.sequence(std::array{grammar.text(format.trigger), rest})});
}

}  // namespace folio::infer::forms
