// SwiGLU on LibTorch: the feed-forward network, in which a gate scales each hidden element.
//
//     y = w2(silu(w1(x)) * w3(x))          silu(z) = z / (1 + e^-z)
//
// w1, w2 and w3 are members (modules.h); w1->forward(x) computes w1(x). Write silu yourself, with torch::sigmoid
// or exp.
//
// Read first: experiments/08_swiglu/README.md.
// Check it with: make exercise N=modules/swiglu
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor SwiGLUImpl::forward(const Tensor& x_BTD) {
  throw Unfilled(
      "SwiGLU is still to be written, in experiments/exercises/modules/swiglu.cpp.\n"
      "Two products widen x: the gate by w1, through silu, and w3. Multiply them number by number; w2 narrows it.");
}

}  // namespace folio::exercises
