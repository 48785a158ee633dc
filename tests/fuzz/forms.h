// Shared by the fuzz targets of structured output (grammars, JSON schemas, regular expressions): take_form().
#pragma once

#include <string_view>

#include "infer/forms/forms.h"

namespace folio::fuzz {

/// Compiles a form for a small vocabulary and checks it along one output: each mask has exactly the tokens whose bytes
/// the form accepts, and an empty mask is a valid end. Returns true if the form compiles. Errors must contain `where`.
bool take_form(const infer::forms::FormOptions& options, const char* where);

}  // namespace folio::fuzz
