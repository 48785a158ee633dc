// What a GPU does together of a step's operations: a norm or an activation is computed while the inputs of the product
// that reads it are packed, and what a product adds to the residual by the norm that follows.
#pragma once

#include <span>
#include <vector>

#include "infer/forward/operation.h"

namespace folio::infer {

/// An operation, and those before it that its kernels compute, too. Points into the operations.
struct Fused {
  const Operation* operation;
  const Norm* norm = nullptr;          ///< computes Normed while it is packed
  const Activate* activate = nullptr;  ///< computes the gate while it is packed
  bool gathers = false;                ///< Attend: computes all rows, and then does the Gather before it
  bool leaves_branch = false;          ///< ProjectToResidual: Branch is added to Residual by the next Norm,
  bool adds_branch = false;            ///< namely this one
};

/// Fuses operations with those that directly follow them, in order.
[[nodiscard]] std::vector<Fused> fuse(std::span<const Operation> operations);

}  // namespace folio::infer
