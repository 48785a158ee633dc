// Shared by the fuzz targets of structured output: take_form() compiles a grammar, regular expression or JSON schema
// and checks its token masks.
#pragma once

#include <string_view>

#include "infer/forms/forms.h"

namespace folio::fuzz {

/// Compiles `options` for a small vocabulary and checks the masks of an output of up to 12 tokens: each must allow
/// exactly the tokens whose bytes are valid next, and may be empty only where the output may end. Returns true if
/// `options` compiled. Otherwise, the error's message must contain `where`.
bool take_form(const infer::forms::FormOptions& options, const char* where);

}  // namespace folio::fuzz
