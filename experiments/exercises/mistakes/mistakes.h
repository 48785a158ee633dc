// Common mistakes in the exercises that the tests must detect. A program linked with mistakes/ instead of the reader's
// files runs the one selected by the environment variable FOLIO_MISTAKE; all other functions are correct.
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

namespace folio::exercises {

/// A wrong implementation of an exercise's function. `Function` is the function's type.
template <typename Function>
struct Mistake {
  std::string_view name;
  std::string_view property;  ///< name of the first test that must fail
  std::string_view cause;     ///< part of the failed test's message
  Function* function;
};

/// Returns the mistake that $FOLIO_MISTAKE selects if it is in `mistakes`, else the correct function `sound`.
template <typename Function>
[[nodiscard]] Function* chosen(const std::vector<Mistake<Function>>& mistakes, Function* sound) {
  const char* name = std::getenv("FOLIO_MISTAKE");
  for (const auto& mistake : mistakes) {
    if (name != nullptr && mistake.name == name) return mistake.function;
  }
  return sound;
}

}  // namespace folio::exercises
