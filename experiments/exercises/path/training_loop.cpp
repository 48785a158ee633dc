// The training loop. Each step takes a batch of the text, computes the loss of the model on it (forward), finds how the
// loss changes with each parameter (backward: the gradients), and moves the parameters a little the other way
// (descend):
//
//     for each step:  take_batch(step)  ->  loss()  ->  clear_gradients()  ->  backward()  ->  descend(rates[step])
//
// backward() ADDS to the gradients that are there, as LibTorch's does, since a parameter may be used in several places.
// So they have to be cleared in each step, before it.
//
// An example with one parameter w, the loss (w - 1)², its gradient 2 (w - 1) and the rate 1/4: w = 0 has the loss 1 and
// the gradient -2, so w becomes 0.5. Its loss is 0.25 and its gradient -1, so w becomes 0.75. The losses are 1, 0.25,
// ….
//
// Check it with: make exercise N=training_loop
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// Trainee is in path.h. The losses of the steps, each of its own batch and before the parameters move.
Doubles train(Trainee& model, const Doubles& rates) {
  throw Unfilled(
      "train is still to be written, in experiments/exercises/path/training_loop.cpp.\n"
      "A loop over the rates with the five calls in their order. Keep each loss, and return them all.");
}

}  // namespace folio::exercises
