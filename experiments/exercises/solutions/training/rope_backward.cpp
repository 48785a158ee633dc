#include "experiments/exercises/training/training.h"

namespace folio::exercises {

Tensor rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy) {
  const Tensor pairs = dy.unflatten(-1, {-1, 2}), da = pairs.select(-1, 0), db = pairs.select(-1, 1);
  return torch::stack({cos * da + sin * db, cos * db - sin * da}, -1).flatten(-2);
}

}  // namespace folio::exercises
