// Your own modules in a whole Llama, which is built of parts: here you say what a layer's are.
//
//     torch::nn::AnyModule(RMSNorm(dim, eps))     is a norm as a part; nn::BlockParts has the names of the four
//
// A layer has a norm of its own before each branch. Attention gets the rotation as a function. The numbers are in the
// configuration: dim, hidden_dim, norm_eps, context_length, head_dim, rope_theta. Our own RopeCache is not needed.
//
// Read first: modules/block.h, modules/parts.h.
// Check it with: make exercise N=modules/llama
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

nn::BlockParts MyParts::block_parts(const core::ModelConfig& c, nn::RopeCache ours, int64_t layer) const {
  throw Unfilled(
      "The parts are still to be written, in experiments/exercises/modules/llama.cpp.\n"
      "Make a Rope and from it a Rotate, then two RMSNorms, an Attention and a SwiGLU, and return them as "
      "nn::BlockParts.");
}

}  // namespace folio::exercises
