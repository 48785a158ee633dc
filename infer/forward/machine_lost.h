// The error of a machine that can run no more steps.
#pragma once

#include "core/error.h"

namespace folio::infer {

/// Thrown if a part of a machine has failed permanently, such as a rank whose process exited. Later steps fail, too.
class MachineLost : public core::Error {
 public:
  using core::Error::Error;
};

}  // namespace folio::infer
