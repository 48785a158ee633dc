// What the targets of forms ask of a form that was accepted.
#pragma once

#include <string_view>

#include "infer/forms/forms.h"

namespace folio::fuzz {

/// Compiles for a small vocabulary, and looks at the places on some way: a token may come exactly if its bytes may come
/// one by one, and where no byte may come, the text may end. True if it was accepted; a refusal names `where`.
bool take_form(const infer::forms::FormOptions& options, const char* where);

}  // namespace folio::fuzz
