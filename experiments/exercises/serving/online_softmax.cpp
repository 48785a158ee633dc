// Online softmax: attention without a row of all its scores. The result of attention is
//
//     (sum over j of exp(s_j - m) v_j) / (sum over j of exp(s_j - m))        m: the largest score
//
// but the scores come in blocks, and the largest one may be in the last block. So three things are kept of what came:
// the largest score so far, and the two sums with it. Where a block brings a larger score, both sums are brought to the
// new maximum first: exp(s - new) = exp(s - old) * exp(old - new).
//
// For example the scores 0, 0 with the values 2, 4, and then ln 4 with the value 9: after the first block max = 0, sum
// = 2, weighted = 6. With the new max = ln 4 these are 2 / 4 = 0.5 and 6 / 4 = 1.5, and the third score adds 1 and 9:
// sum = 1.5, weighted = 10.5. The result is 10.5 / 1.5 = 7, as (2 + 4 + 4 * 9) / (1 + 1 + 4) is.
//
// A score of -infinity is masked: it has no weight. There may be a block of only such scores, and -infinity minus
// -infinity is NaN.
//
// Check it with: make exercise N=online_softmax
#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// scores: (n). values: (n, dim). Partial is in serving.h; before the first block its `weighted` is empty.
void take_block(Partial& partial, const Floats& scores, const Floats& values) {
  throw Unfilled(
      "take_block is still to be written, in experiments/exercises/serving/online_softmax.cpp.\n"
      "The new maximum first; then the old sums times exp(old - new); then the block's own terms.");
}

}  // namespace folio::exercises
