// Fuzzes JSON schemas: parsing, compiling, and the masks of accepted schemas.
#include <string>

#include "tests/fuzz/forms.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  return take_form({.kind = infer::forms::FormOptions::Kind::JsonSchema, .text = std::string(input)}, "JSON schema: ");
}

}  // namespace folio::fuzz
