// Runs a parsed template. Each character of the result is still marked as said or not (value.h).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "jinja/parser.h"

namespace folio::data::jinja {

using Variables = std::vector<std::pair<std::string_view, Value>>;

/// Throws core::Error that begins with the line: an operation that Python or Jinja refuses, the template's own
/// raise_exception, or more than a rendering may use.
[[nodiscard]] Text render(const Block& program, Session& session, Variables variables);

}  // namespace folio::data::jinja
