// What an exercise throws until it is written.
#pragma once

#include <stdexcept>

namespace folio::exercises {

/// Its message is the hint that the reader sees.
class Unfilled : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace folio::exercises
