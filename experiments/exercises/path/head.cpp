// An attention head. Three learned matrices map the vector of each position to
//
//     a query  q_t = wq x_t    what the position looks for
//     a key    k_t = wk x_t    what it can be found by
//     a value  v_t = wv x_t    what it passes on
//
// and then position t attends to positions 0 to t: attend(q, k, v) of the previous exercise, which must be written
// first.
//
// A matrix w (K, D) times a vector x (D) has K elements: (w x)_i = sum over d of w[i, d] * x[d]. Example: the matrix
// with the rows (1, 2, 3) and (0, 1, 0) times the vector (1, 10, 100) is (321, 10).
//
// Check it with: make exercise N=head
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// Returns the head's output (T, K). x: (T, D). wq, wk, wv: (K, D), with K = wq.size() / D.
Floats head(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D) {
  throw Unfilled(
      "head is still to be written, in experiments/exercises/path/head.cpp.\n"
      "Multiply each row of x by wq, wk and wv; a function of your own saves writing that three times. Then call "
      "attend.");
}

}  // namespace folio::exercises
