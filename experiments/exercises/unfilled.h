// The exception thrown by an unwritten exercise.
#pragma once

#include <stdexcept>

namespace folio::exercises {

/// An unwritten exercise; the message is a hint for the reader.
class Unfilled : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace folio::exercises
