// A whole Llama made of your own modules. Specify the parts of a layer here.
//
//     torch::nn::AnyModule(RMSNorm(dim, eps))     wraps a norm as a part; nn::BlockParts lists all four parts
//
// Each branch of each layer has its own norm. Attention receives the rotation as a function. The sizes are in the
// configuration: dim, hidden_dim, norm_eps, context_length, head_dim, rope_theta. Folio's RopeCache is not needed.
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
