// Shared by the fuzz targets of structured output: take_form() compiles a form and checks its masks.
#pragma once

#include <string_view>

#include "infer/forms/forms.h"

namespace folio::fuzz {

/// Compiles `options` for a small vocabulary and checks one output: each step's mask must allow exactly the tokens
/// whose bytes are valid next, and may be empty only where the output may end. Returns true if `options` compiled. A
/// compile error must contain `where`.
bool take_form(const infer::forms::FormOptions& options, const char* where);

}  // namespace folio::fuzz
