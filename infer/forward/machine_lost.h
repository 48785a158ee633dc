// The error of a machine that a step can't go on without, and none after it.
#pragma once

#include "core/error.h"

namespace folio::infer {

/// A part of the machine is gone for good, such as a rank whose process has died: every later step fails, too.
class MachineLost : public core::Error {
 public:
  using core::Error::Error;
};

}  // namespace folio::infer
