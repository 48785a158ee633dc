// A grammar as llama.cpp writes it.
#include "tests/fuzz/forms.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  return take_form({.kind = infer::forms::FormOptions::Kind::Grammar, .text = std::string(input)}, "the grammar: ");
}

}  // namespace folio::fuzz
