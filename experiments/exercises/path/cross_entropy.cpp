// Cross-entropy: the loss, a number that says how wrong a model's predictions are. A model gives each of V characters a
// number, its logit. Softmax makes probabilities of them, and a position's loss is -ln of the probability of the
// character that came, its target:
//
//     p_v  = exp(logit_v) / sum over all u of exp(logit_u)
//     loss = mean over the positions of -ln p_target
//
// For example V = 3: the logits (0, 0, 0) give p = (1/3, 1/3, 1/3) and the loss ln 3 = 1.0986, whatever came. The
// logits (ln 2, 0, 0) give p = (1/2, 1/4, 1/4): the loss is ln 2 = 0.6931 if character 0 came, and ln 4 = 1.3863
// otherwise. The probabilities stay the same if one number is subtracted from all logits of a position: take care of
// exp(1000).
//
// Check it with: make exercise N=cross_entropy
#include <algorithm>
#include <cmath>

#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// logits: (n_positions, V). targets: (n_positions), each from 0 to V - 1. The loss, in nats.
double cross_entropy(const Floats& logits, const std::vector<int32_t>& targets) {
  throw Unfilled(
      "cross_entropy is still to be written, in experiments/exercises/path/cross_entropy.cpp.\n"
      "For each position: add up exp(logit) over the V characters, divide that of the target by the sum, take -ln. "
      "The loss is the mean over the positions.");
}

}  // namespace folio::exercises
