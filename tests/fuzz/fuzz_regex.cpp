// Fuzzes regular expressions as structured output and as a JSON schema's "pattern": parsing, and masks of valid ones.
#include "infer/forms/regex.h"
#include "tests/fuzz/forms.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  const bool is_expression = accepted(
      [&] {
        static_cast<void>(infer::forms::parse_regex(input));
        static_cast<void>(infer::forms::parse_regex(input, infer::forms::RegexMatch::Search));
      },
      "");
  const bool is_taken =
      take_form({.kind = infer::forms::FormOptions::Kind::Regex, .text = std::string(input)}, "regular expression: ");
  check(is_expression || !is_taken, "an invalid expression has no form");
  return is_taken;
}

}  // namespace folio::fuzz
