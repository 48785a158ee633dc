#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "infer/forms/calls.h"
#include "infer/forms/forms.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostChoiceBytes = size_t{1} << 20U;  // maximum total bytes of a request's choices

Grammar::Part choice_part(Grammar& grammar, const std::vector<std::string>& choices) {
  core::require(!choices.empty(), "the list is empty");
  grammar.budget().spend(choices.size());
  size_t bytes = 0;
  for (const std::string& text : choices) bytes += text.size();
  core::require(bytes <= kMostChoiceBytes, "have {} bytes, but at most {} are allowed", bytes, kMostChoiceBytes);
  return grammar.texts(choices);
}

// The name of a constraint's kind in error messages, and the request field that sets it.
struct KindNames {
  const char* name;
  const char* field;
};
constexpr std::array<KindNames, 7> kNames{{{"", ""},
                                           {"regular expression", "regex"},
                                           {"grammar", "grammar"},
                                           {"JSON schema", "json_schema"},
                                           {"JSON object", "json_object"},
                                           {"choices", "choice"},
                                           {"tools", "tools"}}};

}  // namespace

Grammar::Part part_of(Grammar& grammar, const FormOptions& options) {
  switch (options.kind) {
    case FormOptions::Kind::Regex:
      return regex_part(grammar, options.text);
    case FormOptions::Kind::Grammar:
      return gbnf_part(grammar, options.text);
    case FormOptions::Kind::JsonSchema:
      return json_schema_part(grammar, options.text, options.spaces);
    case FormOptions::Kind::JsonObject:
      return json_object_part(grammar, options.spaces);
    case FormOptions::Kind::Calls:
      return calls_part(grammar, *options.calls);
    default:
      return choice_part(grammar, options.choices);
  }
}

std::shared_ptr<Form> make_form(const FormOptions& options, std::shared_ptr<const TokenTree> tokens,
                                const core::WorkBudget& budget) {
  const auto& [name, field] = kNames.at(static_cast<size_t>(options.kind));
  const core::WorkBudget::Place place(budget, budget.has_place() ? "" : field);
  try {
    Grammar grammar({.longest_token = tokens->longest()}, budget);
    const Grammar::Rule text = grammar.declare();
    grammar.define(text, reasoned_part(grammar, options.thinking, part_of(grammar, options)));
    grammar.finish(text, tokens->bytes());
    return std::make_shared<Form>(std::move(grammar), std::move(tokens), Form::kMostBytes, budget.limit());
  } catch (const core::WorkStopped&) {
    throw;
  } catch (const core::Error& error) {
    core::fail("{}: {}", name, error.what());
  }
}

}  // namespace folio::infer::forms
