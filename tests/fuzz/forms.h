// Shared by the fuzz targets of grammars, JSON schemas and regular expressions: compiles and checks a form.
#pragma once

#include <string_view>

#include "infer/forms/forms.h"

namespace folio::fuzz {

/// Compiles a form for a small vocabulary and checks the states along one output: each allows exactly the tokens whose
/// bytes it allows, and is a valid end if it allows none. Returns true if the form is accepted. Errors contain `where`.
bool take_form(const infer::forms::FormOptions& options, const char* where);

}  // namespace folio::fuzz
