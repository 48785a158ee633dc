// A rule of the tape. Autograd writes down each operation of the forward pass, and then goes back from the loss: each
// operation has a rule that takes the gradient of the loss by its output and adds to the gradients of its inputs. Here
// is the operation that matters most, the product of two matrices:
//
//     forward   y = a b,  y[r, c] = sum over i of a[r, i] b[i, c]
//     asked     what has to be added to da and db, from dy: da[r, i] is how fast the loss rises with a[r, i]
//
// a[r, i] is in all y[r, c] of its row, each time with the factor b[i, c]; the chain rule multiplies dy[r, c] by that
// factor and adds up. For example 1 by 1 matrices with a = 2 and b = 3: y = 6, and with dy = 1 the gradients are da = 3
// and db = 2.
//
// It is "add", not "set": a tensor that is used twice gets a part of its gradient from each use.
//
// Read first: experiments/14_tape/README.md. Check it with: make exercise N=tape_rule
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// a, da: (rows, inner). b, db: (inner, columns). dy: (rows, columns).
void matmul_rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns,
                 Doubles& da, Doubles& db) {
  throw Unfilled(
      "matmul_rule is still to be written, in experiments/exercises/path/tape_rule.cpp.\n"
      "Three loops, over r, i and c, as in the forward pass. In the middle two lines: what a[r, i] gets, and what b[i, "
      "c] "
      "gets.");
}

}  // namespace folio::exercises
