// The training loop. Each step takes a batch of text, computes the model's loss on it (forward), computes the gradient
// of the loss with respect to each parameter (backward), and moves the parameters against their gradients (descend):
//
//     for each step:  take_batch(step)  ->  loss()  ->  clear_gradients()  ->  backward()  ->  descend(rates[step])
//
// backward() ADDS to the existing gradients, as LibTorch's does, because a parameter may be used in several places.
// The gradients must be cleared before each backward().
//
// Example with one parameter w, the loss (w - 1)², its gradient 2 (w - 1) and the rate 1/4: w = 0 has the loss 1 and
// the gradient -2, so w becomes 0.5. Its loss is 0.25 and its gradient -1, so w becomes 0.75. The losses are 1, 0.25,
// ….
//
// Check it with: make exercise N=training_loop
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// Takes one step per rate (path.h declares Trainee). Returns each step's loss on its batch, before its update.
Doubles train(Trainee& model, const Doubles& rates) {
  throw Unfilled(
      "train is still to be written, in experiments/exercises/path/training_loop.cpp.\n"
      "A loop over the rates with the five calls in their order. Keep each loss, and return them all.");
}

}  // namespace folio::exercises
