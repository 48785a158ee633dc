// A rule of autograd. Autograd records the operations of the forward pass, then visits them in reverse, starting at the
// loss. Each operation has a rule: from the gradient of the loss with respect to the operation's output, it computes
// what to add to the gradients of the inputs. Here is the most important operation, the product of two matrices:
//
//     forward   y = a b,  y[r, c] = sum over i of a[r, i] b[i, c]
//     find      the additions to da and db, from dy: da[r, i] is the derivative of the loss with respect to a[r, i]
//
// a[r, i] contributes to all y[r, c] of its row, each time with the factor b[i, c]; the chain rule multiplies dy[r, c]
// by that factor and sums over c. Example with 1 by 1 matrices, a = 2 and b = 3: y = 6, and with dy = 1 the gradients
// are da = 3 and db = 2.
//
// Add to da and db instead of setting them: a tensor that is used twice receives a gradient from each use.
//
// Read first: experiments/14_tape/README.md. Check it with: make exercise N=tape_rule
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

// Adds the gradients to da and db. a, da: (rows, inner). b, db: (inner, columns). dy: (rows, columns).
void matmul_rule(const Doubles& a, const Doubles& b, const Doubles& dy, size_t rows, size_t inner, size_t columns,
                 Doubles& da, Doubles& db) {
  throw Unfilled(
      "matmul_rule is still to be written, in experiments/exercises/path/tape_rule.cpp.\n"
      "Three loops, over r, i and c, as in the forward pass. In the middle two lines: what a[r, i] gets, and what b[i, "
      "c] "
      "gets.");
}

}  // namespace folio::exercises
