// The mistakes, each with the test that must fail first and words of its message:
//     one_way_only: LengthsAreKept: one of the two terms missing
//     rotation_not_inverted: WhatWasTurnedForwardIsTurnedBack: the same angle again
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

Tensor rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy) {
  const Tensor pairs = dy.unflatten(-1, {-1, 2}), da = pairs.select(-1, 0), db = pairs.select(-1, 1);
  const Tensor s = wrong("one_way_only") ? torch::zeros_like(sin) : wrong("rotation_not_inverted") ? -sin : sin;
  return torch::stack({cos * da + s * db, cos * db - s * da}, -1).flatten(-2);
}

}  // namespace folio::exercises
