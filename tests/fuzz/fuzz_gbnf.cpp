// Fuzzes grammars in llama.cpp's format, GBNF: parsing, compiling, and the masks of accepted grammars.
#include "tests/fuzz/forms.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  return take_form({.kind = infer::forms::FormOptions::Kind::Grammar, .text = std::string(input)}, "grammar: ");
}

}  // namespace folio::fuzz
