// Your own modules in a whole Llama. A factory makes the block of each layer, of parts that are modules:
//
//     torch::nn::AnyModule(RMSNorm(dim, eps))     is a norm as a part; nn::BlockParts has the names of the four
//     layer_of(parts)                             is your block of them, as Llama takes it
//
// A layer has a norm of its own before each branch. One Rope serves all layers; attention gets it as a function.
// The numbers are in the configuration: dim, hidden_dim, norm_eps, context_length, head_dim, rope_theta.
//
// Read first: modules/block.h, modules/llama.h.
// Check it with: make exercise N=modules/llama
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

nn::BlockFactory my_blocks(const core::ModelConfig& config) {
  throw Unfilled(
      "The factory is still to be written, in experiments/exercises/modules/llama.cpp.\n"
      "Make the Rope, and return a function of (const core::ModelConfig& c, int64_t layer) that keeps it: it makes two "
      "RMSNorms, an Attention and a SwiGLU, puts them into nn::BlockParts, and returns layer_of(parts).");
}

}  // namespace folio::exercises
