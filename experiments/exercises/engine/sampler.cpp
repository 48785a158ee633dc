// Draws the next token from logits. Steps, in this order:
//
//     temperature 0   the token with the largest logit; skip all other steps
//     top-k           keep the k tokens with the largest logits (0: all)
//     top-p           keep the most likely tokens until their probabilities (softmax of the kept logits) sum to p,
//                     including the token that reaches p (1: all)
//     min-p           keep the tokens that are at least min_p times as likely as the most likely one (0: all)
//     draw            one token from the softmax of (kept logits / temperature)
//
// `uniform` is a random number from 0 to 1. Divide the interval from 0 to 1 among the kept tokens in proportion to
// their probabilities, most likely first: the token whose interval contains `uniform` is drawn.
//
// Examples of each step, with probabilities of 0.40, 0.30, 0.15, 0.10 and 0.05: top-k 2 keeps the first two, which
// become 0.57 and 0.43. Top-p 0.75 keeps three: the first two sum to 0.70, and the third crosses 0.75. Min-p 0.3 keeps
// the tokens of at least 0.3 · 0.40 = 0.12, also three. Without filters, the second token has the interval from 0.40 to
// 0.70, so `uniform` = 0.5 draws it.
//
// Check it with: make exercise N=sampler
#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// Returns the index of a token. logits: (vocab_size). A logit of -infinity means that the token is never drawn.
int32_t sample(std::span<const float> logits, const SamplerOptions& options, double uniform) {
  throw Unfilled(
      "sample is still to be written, in experiments/exercises/engine/sampler.cpp.\n"
      "Begin with temperature 0. Then sort the tokens by their logits, and go on from there.");
}

}  // namespace folio::exercises
