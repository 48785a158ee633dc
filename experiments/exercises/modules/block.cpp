// A layer of a Llama on LibTorch: attention and feed-forward, each with a norm before it and a residual connection.
//
//     h = x + attention(attention_norm(x))          y = h + ffn(ffn_norm(h))
//
// The parts are parts_.attention_norm, parts_.attention, parts_.ffn_norm and parts_.ffn. Call forward() of each.
//
// Read first: experiments/09_llama/README.md.
// Check it with: make exercise N=modules/block
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor BlockImpl::layer(const Tensor& x_BTD) {
  throw Unfilled(
      "The block is still to be written, in experiments/exercises/modules/block.cpp.\n"
      "Two lines: what attention says of the normalized stream is added to the stream, and then the same with ffn.");
}

}  // namespace folio::exercises
