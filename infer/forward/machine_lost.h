// The error of a machine that can run no more steps.
#pragma once

#include "core/error.h"

namespace folio::infer {

/// Part of the machine is lost for good, such as a rank whose process died. All later steps fail too.
class MachineLost : public core::Error {
 public:
  using core::Error::Error;
};

}  // namespace folio::infer
