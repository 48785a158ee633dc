// Cross-entropy: the loss, which measures how wrong a model's predictions are. A model gives each of V characters a
// score, its logit. Softmax turns logits into probabilities, and a position's loss is -ln of the probability of its
// target, the actual next character:
//
//     p_v  = exp(logit_v) / sum over all u of exp(logit_u)
//     loss = mean over the positions of -ln p_target
//
// Example with V = 3: the logits (0, 0, 0) give p = (1/3, 1/3, 1/3) and the loss ln 3 = 1.0986 for any target. The
// logits (ln 2, 0, 0) give p = (1/2, 1/4, 1/4): the loss is ln 2 = 0.6931 for target 0, and ln 4 = 1.3863 otherwise.
// Subtracting one number from all logits of a position leaves the probabilities unchanged: use this to avoid overflow,
// as in exp(1000).
//
// Check it with: make exercise N=cross_entropy
#include <algorithm>
#include <cmath>

#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// Returns the loss in nats. logits: (n_positions, V). targets: (n_positions), each from 0 to V - 1.
double cross_entropy(const Floats& logits, const std::vector<int32_t>& targets) {
  throw Unfilled(
      "cross_entropy is still to be written, in experiments/exercises/path/cross_entropy.cpp.\n"
      "For each position: add up exp(logit) over the V characters, divide that of the target by the sum, take -ln. "
      "The loss is the mean over the positions.");
}

}  // namespace folio::exercises
