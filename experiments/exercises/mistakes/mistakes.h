// Common mistakes in the exercises, which the tests must detect. A test program links mistakes/ instead of the
// reader's files. The environment variable FOLIO_MISTAKE selects one mistake by its name; all other functions are
// correct. Each file begins with a list of its mistakes, which exercises_test.py reads.
#pragma once

#include <cstdlib>
#include <string_view>

namespace folio::exercises {

/// Returns true if $FOLIO_MISTAKE is `name`.
[[nodiscard]] inline bool wrong(std::string_view name) {
  static const char* const value = std::getenv("FOLIO_MISTAKE");
  static const std::string_view chosen = value != nullptr ? value : "";
  return name == chosen;
}

}  // namespace folio::exercises
