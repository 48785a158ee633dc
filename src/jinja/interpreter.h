// Runs a parsed template. Each character of the result is still marked as said or not (value.h).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "jinja/parser.h"

namespace folio::data::jinja {

/// What a {% generation %} block wrote: characters [begin, end) of the result.
struct Generated {
  size_t begin;
  size_t end;
};

using Variables = std::vector<std::pair<std::string_view, Value>>;

/// Throws core::Error that begins with the line: an operation that Python or Jinja refuses, the template's own
/// raise_exception, or more than a rendering may use. With `generated`, it says what is an assistant's answer, and a
/// {% generation %} within a macro or a set, whose text may end up anywhere, is an error.
[[nodiscard]] Text render(const Block& program, Session& session, Variables variables,
                          std::vector<Generated>* generated = nullptr);

}  // namespace folio::data::jinja
