#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {
namespace {

using RopeBackward = Tensor(const Tensor& cos, const Tensor& sin, const Tensor& dy);

Tensor sound_rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy) {
  const Tensor pairs = dy.unflatten(-1, {-1, 2}), da = pairs.select(-1, 0), db = pairs.select(-1, 1);
  return torch::stack({cos * da + sin * db, cos * db - sin * da}, -1).flatten(-2);
}

Tensor rotation_not_inverted(const Tensor& cos, const Tensor& sin, const Tensor& dy) {
  return sound_rope_backward(cos, -sin, dy);
}

Tensor one_way_only(const Tensor& cos, const Tensor& /*sin*/, const Tensor& dy) {
  return sound_rope_backward(cos, torch::zeros_like(cos), dy);
}

const std::vector<Mistake<RopeBackward>> kRopeBackwardMistakes{
    {"one_way_only", "LengthsAreKept", "one of the two terms missing", one_way_only},
    {"rotation_not_inverted", "WhatWasTurnedForwardIsTurnedBack", "the same angle again", rotation_not_inverted},
};

}  // namespace

Tensor rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy) {
  return chosen(kRopeBackwardMistakes, sound_rope_backward)(cos, sin, dy);
}

}  // namespace folio::exercises
