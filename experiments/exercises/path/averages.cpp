// The same average in four forms, the last of which is attention. Row t of the result is the mean of rows 0 to t of x:
// all positions so far including t, and none that come later. For x = (2, 4, 9) it is (2, 3, 5).
//
//     1. a loop       y_t = (x_0 + … + x_t) / (t + 1)
//     2. weights      y_t = sum over s of w_ts x_s
//                     w_ts = 1 / (t + 1) for s <= t, and 0 for s > t
//     3. a softmax    w_ts = exp(score_ts) / sum over u <= t of exp(score_tu) for s <= t, and 0 for s > t
//     4. attention    score_ts = (q_t · k_s) / sqrt(K), and y_t = sum over s of w_ts v_s
//
// For T = 3 the weights of form 2 are (1, 0, 0), (1/2, 1/2, 0), (1/3, 1/3, 1/3); form 3 gives the same if all scores
// are equal. With the scores (0, ln 3) position t = 1 has the weights (1/4, 3/4). In form 4 the scores depend on the
// content of the positions.
//
// The reason for sqrt(K): the dot product of two vectors of K random numbers with mean 0 and variance 1 has a standard
// deviation of sqrt(K). Without the division, wide vectors would have large scores, and nearly all weight would be on
// one position.
//
// Check it with: make exercise N=averages
#include <algorithm>
#include <cmath>

#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// Computes the averages (T, D) with loops: row t is the mean of rows 0 to t of x (T, D).
Floats average_by_loop(const Floats& x, size_t T, size_t D) {
  throw Unfilled(
      "average_by_loop is still to be written, in experiments/exercises/path/averages.cpp.\n"
      "Three loops: over t, over s from 0 to t, and over the D numbers of a row.");
}

// Returns weights (T, T) whose product with x (T, D) is the averages: row t has 1 / (t + 1) for positions 0 to t, and 0
// for later ones.
Floats average_weights(size_t T) {
  throw Unfilled(
      "average_weights is still to be written, in experiments/exercises/path/averages.cpp.\n"
      "Row t has 1 / (t + 1) in its places 0 to t, and 0 behind them.");
}

// Returns weights (T, T) computed by a causal softmax: row t is the softmax of scores 0 to t in row t of `scores`
// (T, T), and 0 for later positions.
Floats causal_softmax(const Floats& scores, size_t T) {
  throw Unfilled(
      "causal_softmax is still to be written, in experiments/exercises/path/averages.cpp.\n"
      "In each row t: exp of the scores 0 to t, divided by their sum. Subtract the largest of them before.");
}

// Returns the outputs (T, D) of causal attention. q, k: (T, K). v: (T, D), with D = v.size() / T.
Floats attend(const Floats& q, const Floats& k, const Floats& v, size_t T, size_t K) {
  throw Unfilled(
      "attend is still to be written, in experiments/exercises/path/averages.cpp.\n"
      "Scores from dot products, weights from causal_softmax, and then the weighted sums of the rows of v.");
}

}  // namespace folio::exercises
