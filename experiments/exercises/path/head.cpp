// A head of attention. The vector of each position is multiplied by three matrices, which training learns. They make of
// it
//
//     a query  q_t = wq x_t    what the position looks for
//     a key    k_t = wk x_t    what it can be found by
//     a value  v_t = wv x_t    what it says to those that find it
//
// and then position t attends to the positions 0 to t: attend(q, k, v) of the exercise before, which has to be written
// first.
//
// A matrix w of (K, D) times a vector x of D numbers has K numbers: (w x)_i = sum over d of w[i, d] * x[d]. For
// example, the matrix with the rows (1, 2, 3) and (0, 1, 0) times the vector (1, 10, 100) is (321, 10).
//
// Check it with: make exercise N=head
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// x: (T, D). wq, wk, wv: (K, D), with K = wq.size() / D. What each position gets: (T, K).
Floats head(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D) {
  throw Unfilled(
      "head is still to be written, in experiments/exercises/path/head.cpp.\n"
      "Multiply each row of x by wq, wk and wv; a function of your own saves writing that three times. Then call "
      "attend.");
}

}  // namespace folio::exercises
