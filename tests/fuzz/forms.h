// Checks of the form targets on a form that was accepted.
#pragma once

#include <string_view>

#include "infer/forms/forms.h"

namespace folio::fuzz {

/// Compiles a form for a small vocabulary and checks states along a path: a token is allowed exactly if its bytes are
/// allowed one by one, and a state that allows none may end. Returns true if accepted; errors must contain `where`.
bool take_form(const infer::forms::FormOptions& options, const char* where);

}  // namespace folio::fuzz
