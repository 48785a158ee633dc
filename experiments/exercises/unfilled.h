// Defines the exception that an exercise's function throws until the reader writes the function.
#pragma once

#include <stdexcept>

namespace folio::exercises {

/// Thrown by an exercise's function that isn't written yet. The message is a hint for the reader.
class Unfilled : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Calls a function of the reader by `call`. Returns false if it isn't written yet.
[[nodiscard]] bool is_written(const auto& call) {
  try {
    call();
    return true;
  } catch (const Unfilled&) {
    return false;
  }
}

}  // namespace folio::exercises
