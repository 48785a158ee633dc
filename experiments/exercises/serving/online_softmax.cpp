// Online softmax: attention without storing a row of scores. The result of attention is
//
//     (sum over j of exp(s_j - m) v_j) / (sum over j of exp(s_j - m))        m: the largest score
//
// but the scores arrive in blocks, and the largest may be in the last block. So three values are kept: the largest
// score so far, and the two sums relative to it. When a block has a larger score, both sums are rescaled to the new
// maximum first: exp(s - new) = exp(s - old) * exp(old - new).
//
// Example with the scores 0, 0 and the values 2, 4, then the score ln 4 with the value 9: after the first block max =
// 0, sum = 2, weighted = 6. With the new max = ln 4 these become 2 / 4 = 0.5 and 6 / 4 = 1.5, and the third score adds
// 1 and 9: sum = 1.5, weighted = 10.5. The result is 10.5 / 1.5 = 7 = (2 + 4 + 4 * 9) / (1 + 1 + 4).
//
// A score of -infinity is masked: it has no weight. All scores of a block may be masked, and -infinity minus -infinity
// is NaN.
//
// Check it with: make exercise N=online_softmax
#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Adds a block to `partial` (see serving.h). scores: (n). values: (n, dim). Before the first block `weighted` is empty.
void take_block(Partial& partial, const Floats& scores, const Floats& values) {
  throw Unfilled(
      "take_block is still to be written, in experiments/exercises/serving/online_softmax.cpp.\n"
      "The new maximum first; then the old sums times exp(old - new); then the block's own terms.");
}

}  // namespace folio::exercises
