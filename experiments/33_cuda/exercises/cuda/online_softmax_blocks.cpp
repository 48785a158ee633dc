// Attention over a paged cache by one warp, with an online softmax. The cache is stored in blocks of 32 positions,
// which may be anywhere in memory; a table lists them in order. The warp processes one block after the other. In each
// block, lane j computes the score of position j: the product of the query with its key. Then the warp updates three
// values:
//
//     max        the largest score so far                     the same in all lanes
//     sum        the sum of exp(score - max)                  the same in all lanes
//     weighted   the sum of exp(score - max) · value          lane d has element d
//
// The largest score may be in the last block. If a block has a score above `max`, both sums are first rescaled to the
// new maximum: exp(s - new) = exp(s - old) · exp(old - new). At the end the output is weighted / sum. No score is
// stored.
//
// exp_of(x) is e^x. __shfl_sync(kAllLanes, weight, j) gives each lane the value of lane j; all lanes must call it.
// The last block may have only n < 32 positions: then the lanes from n on have the score -infinity, and the values
// from n on are not written (the emulator fills them with NaN).
//
// The exercise online_softmax is the same in plain C++, with an example.
//
// Check it with: make exercise N=online_softmax_blocks
#include "experiments/33_cuda/exercises/cuda/online_softmax_blocks_kernel.h"

namespace folio::exercises {

// Merges a block of n positions into `s` (State and warp_max() are in online_softmax_blocks_kernel.h). `score` is the
// score of this lane's position. values: (n, kHeadDim).
__device__ void take_block(State& s, float score, const float* values, unsigned n) {
  throw Unfilled(
      "take_block is still to be written, in experiments/33_cuda/exercises/cuda/online_softmax_blocks.cpp.\n"
      "The new maximum, over all lanes; both sums times exp(old - new); then each position's weight and value.");
}

}  // namespace folio::exercises
