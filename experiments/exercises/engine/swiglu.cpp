// The activation of the feed-forward network. Its two inputs, `gate` and `up`, are products of the same vector with two
// matrices. `up` is multiplied by silu(gate), element by element:
//
//     out_i = silu(gate_i) * up_i        with silu(x) = x * sigmoid(x) = x / (1 + exp(-x))
//
// Read first: experiments/08_swiglu/README.md.
// Check it with: make exercise N=engine/swiglu
#include <cmath>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// Writes silu(gate) * up to out, elementwise. gate, up and out: (n).
void swiglu(const float* gate, const float* up, size_t n, float* out) {
  throw Unfilled(
      "swiglu is still to be written, in experiments/exercises/engine/swiglu.cpp.\n"
      "Number by number: gate / (1 + exp(-gate)) * up.");
}

}  // namespace folio::exercises
