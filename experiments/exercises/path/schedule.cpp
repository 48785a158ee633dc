// Learning rate schedule and gradient clipping, which both control the size of a step.
//
// The rate rises linearly over the first W = `warmup` of S = `steps` steps, then falls along half a cosine:
//
//     step < W:    rate * (step + 1) / W                                      rate / W at step 0, rate at step W - 1
//     otherwise:   last_rate + (rate - last_rate) * (1 + cos(pi * done)) / 2   with done = (step - W) / (S - W)
//
// Example with rate 8, last_rate 2, W = 4, S = 104: 2, 4, 6, 8, 8, …; at step 54 done = 1/2 and the rate is 5; step 104
// would have 2. Clipping treats all gradients as one vector. If its norm, the root of the sum of squares, exceeds
// `limit`, the vector is scaled to the norm `limit`: (3, 4) has the norm 5, and with the limit 1 it becomes (0.6, 0.8).
//
// Check it with: make exercise N=schedule
#include <cmath>
#include <numbers>

#include "experiments/exercises/path/path.h"

namespace folio::exercises {

double learning_rate(const Schedule& schedule, size_t step) {
  throw Unfilled(
      "learning_rate is still to be written, in experiments/exercises/path/schedule.cpp.\n"
      "During the warm-up a straight line, and then half a cosine. pi is std::numbers::pi.");
}

// Scales the gradients in place so that their norm is at most `limit`.
void clip(Floats& gradients, float limit) {
  throw Unfilled(
      "clip is still to be written, in experiments/exercises/path/schedule.cpp.\n"
      "Find the length. If it is above the limit, multiply every number by limit / length.");
}

}  // namespace folio::exercises
