// Well-known mistakes that the tests must detect. In a program linked with mistakes/ instead of the reader's files,
// $FOLIO_MISTAKE selects one; all other functions are correct.
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

namespace folio::exercises {

/// Function is the type of the exercise's function.
template <typename Function>
struct Mistake {
  std::string_view name;
  std::string_view property;  ///< the first test that fails
  std::string_view cause;     ///< part of its message
  Function* function;
};

/// Returns the function of the selected mistake if it is one of these, else `sound`.
template <typename Function>
[[nodiscard]] Function* chosen(const std::vector<Mistake<Function>>& mistakes, Function* sound) {
  const char* name = std::getenv("FOLIO_MISTAKE");
  for (const auto& mistake : mistakes) {
    if (name != nullptr && mistake.name == name) return mistake.function;
  }
  return sound;
}

}  // namespace folio::exercises
