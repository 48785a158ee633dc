// Fuses a step's operations for a GPU: a norm or activation is computed while the inputs of the product that reads it
// are packed, and a product's result is added to the residual by the norm that follows.
#pragma once

#include <span>
#include <vector>

#include "infer/forward/operation.h"

namespace folio::infer {

/// An operation and the preceding operations that its kernels also compute. Points into the argument of fuse(), which
/// must outlive it.
struct FusedOperation {
  const Operation* operation;
  const Norm* norm = nullptr;          ///< norm whose result the operation packs as its inputs; null: none
  const Activate* activate = nullptr;  ///< activation whose result the operation packs as its inputs; null: none
  bool gathers = false;                ///< for Attend: computes all rows, then runs the Gather issued before it
  bool leaves_branch = false;          ///< for ProjectToResidual: the next Norm adds Branch to Residual
  bool adds_branch = false;            ///< for Norm: adds Branch to Residual first
};

/// Fuses adjacent operations, and a Gather with the next Attend. Otherwise keeps the order.
[[nodiscard]] std::vector<FusedOperation> fuse(std::span<const Operation> operations);

}  // namespace folio::infer
