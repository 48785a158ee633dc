// Well-known mistakes, which the laws have to find. In a program that is linked with mistakes/ instead of the reader's
// files, $FOLIO_MISTAKE names the one that is made; all other functions are the engine's.
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

namespace folio::exercises {

/// Function is that of the exercise.
template <typename Function>
struct Mistake {
  std::string_view name;
  std::string_view law;    ///< that fails, while those before it hold
  std::string_view cause;  ///< words of its message
  Function* function;
};

/// The mistake that is to be made, if it is one of these, or `sound`.
template <typename Function>
[[nodiscard]] Function* chosen(const std::vector<Mistake<Function>>& mistakes, Function* sound) {
  const char* name = std::getenv("FOLIO_MISTAKE");
  for (const auto& mistake : mistakes) {
    if (name != nullptr && mistake.name == name) return mistake.function;
  }
  return sound;
}

}  // namespace folio::exercises
