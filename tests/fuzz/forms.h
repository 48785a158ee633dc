// Shared by the fuzz targets of grammars, JSON schemas and regular expressions: compiles and checks a form.
#pragma once

#include <string_view>

#include "infer/forms/forms.h"

namespace folio::fuzz {

/// Compiles a form for a small vocabulary and checks states along a path: a token is allowed exactly if its bytes are,
/// and a state that allows no token is a valid end. Returns true if the form was accepted. Errors must contain `where`.
bool take_form(const infer::forms::FormOptions& options, const char* where);

}  // namespace folio::fuzz
