// Common mistakes in the exercises, which the tests must detect. A test program links mistakes/ instead of the
// reader's files. The environment variable FOLIO_MISTAKE selects one mistake; all other functions are correct.
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

namespace folio::exercises {

/// A wrong implementation of an exercise's function. `Function` is the function's type.
template <typename Function>
struct Mistake {
  std::string_view name;
  std::string_view property;  ///< name of the test that must fail first
  std::string_view cause;     ///< text that the failure message must contain
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
