// Runs a parsed template. Characters of the result that come from a message are marked (kFromMessage in value.h).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "jinja/parser.h"

namespace folio::data::jinja {

/// The output of a {% generation %} block: characters [begin, end) of the result.
struct Generated {
  size_t begin;
  size_t end;
};

using Variables = std::vector<std::pair<std::string_view, Value>>;

/// Renders a template. Throws core::Error that begins with the line number if Python or Jinja would raise, if the
/// template calls raise_exception, or if a limit is exceeded. If not null, `generated` receives the positions of the
/// assistant's answers, marked by {% generation %} blocks. Such a block within a macro or a set block is then an error,
/// because its position in the result is unknown.
[[nodiscard]] Text render(const Block& program, Session& session, Variables variables,
                          std::vector<Generated>* generated = nullptr);

}  // namespace folio::data::jinja
