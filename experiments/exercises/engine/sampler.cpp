// From logits to the next token. In this order:
//
//     temperature 0   the token with the largest logit, and nothing else
//     top-k           keep the k tokens with the largest logits (0: all)
//     top-p           of the softmax of those, keep the likeliest until they have the share p together: the token that
//                     crosses the border is kept (1: all)
//     min-p           of those, keep the ones that are at least min_p times as likely as the likeliest (0: all)
//     draw            the softmax of (kept logits / temperature), and one token from it
//
// The draw takes `uniform`, a random number from 0 to 1. Lay the kept tokens' probabilities side by side, the likeliest
// first: together they fill the line from 0 to 1, and the token on whose piece `uniform` lies is drawn.
//
// For example shares of 0.40, 0.30, 0.15, 0.10 and 0.05. Top-k 2 keeps the first two, whose shares become 0.57 and
// 0.43. Top-p 0.75 keeps three: the first two have 0.70, and the third crosses the border. Min-p 0.3 keeps those of at
// least 0.3 · 0.40 = 0.12, three as well. A uniform of 0.5 draws the second of all five, whose piece lies from 0.40 to
// 0.70.
//
// Check it with: make exercise N=sampler
#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// logits: (vocab_size). One may be -infinity: that token is never drawn. Returns the index of a token.
int32_t sample(std::span<const float> logits, const SamplerOptions& options, double uniform) {
  throw Unfilled(
      "sample is still to be written, in experiments/exercises/engine/sampler.cpp.\n"
      "Begin with temperature 0. Then sort the tokens by their logits, and go on from there.");
}

}  // namespace folio::exercises
