#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "infer/forms/calls.h"
#include "infer/forms/forms.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostChoiceBytes = size_t{1} << 20U;  // maximum total bytes of a request's choices

// Returns the part for `texts` from byte `from` on, as a prefix tree. `texts` must be sorted and distinct.
Grammar::Part choice_part(Grammar& grammar, std::span<const std::string_view> texts, size_t from) {
  const std::string_view first = texts.front();
  const std::string_view last = texts.back();
  size_t common = from;
  while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
  const Grammar::Part begin = grammar.text(first.substr(from, common - from));
  if (texts.size() == 1) return begin;
  std::vector<Grammar::Part> rests;
  if (first.size() == common) {
    rests.push_back(grammar.empty());
    texts = texts.subspan(1);
  }
  while (!texts.empty()) {
    const auto same = [&](std::string_view text) { return text[common] == texts.front()[common]; };
    const auto n = static_cast<size_t>(std::ranges::find_if_not(texts, same) - texts.begin());
    rests.push_back(choice_part(grammar, texts.first(n), common));
    texts = texts.subspan(n);
  }
  return grammar.sequence(std::array{begin, grammar.choice(rests)});
}

Grammar::Part choice_part(Grammar& grammar, const std::vector<std::string>& choices) {
  core::require(!choices.empty(), "the list is empty");
  grammar.budget().spend(choices.size());
  std::vector<std::string_view> texts(choices.begin(), choices.end());
  size_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  core::require(bytes <= kMostChoiceBytes, "have {} bytes, but at most {} are allowed", bytes, kMostChoiceBytes);
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return choice_part(grammar, texts, 0);
}

const char* name_of(FormOptions::Kind kind) {
  switch (kind) {
    case FormOptions::Kind::Regex:
      return "regular expression";
    case FormOptions::Kind::Grammar:
      return "grammar";
    case FormOptions::Kind::JsonSchema:
      return "JSON schema";
    case FormOptions::Kind::JsonObject:
      return "JSON object";
    case FormOptions::Kind::Calls:
      return "tools";
    default:
      return "choices";
  }
}

// Returns the name that requests and flags use for the kind.
const char* field_of(FormOptions::Kind kind) {
  constexpr std::array kFields{"", "regex", "grammar", "json_schema", "json_object", "choice", "tools"};
  return kFields.at(static_cast<size_t>(kind));
}

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
  const core::WorkBudget::Place place(budget, budget.has_place() ? "" : field_of(options.kind));
  try {
    Grammar grammar({.longest_token = tokens->longest()}, budget);
    const Grammar::Rule text = grammar.declare();
    grammar.define(text, reasoned_part(grammar, options.thinking, part_of(grammar, options)));
    grammar.finish(text, tokens->bytes());
    return std::make_shared<Form>(std::move(grammar), std::move(tokens), Form::kMostBytes, budget.limit());
  } catch (const core::WorkStopped&) {
    throw;
  } catch (const core::Error& error) {
    core::fail("{}: {}", name_of(options.kind), error.what());
  }
}

}  // namespace folio::infer::forms
