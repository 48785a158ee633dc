// Small kernels in the language of infer/cuda/kernel.h. Those of right_kernels.cu are right; those of wrong_kernels.cu
// have one fault each, which the emulator has to see.
#pragma once

#include "infer/cuda/kernel.h"
#include "infer/cuda/mma.h"

namespace folio::infer::gpu::test {

// Blocks of x threads, unless said otherwise.
__global__ void scale(float* x, float by, unsigned n);
/// sums[block] = the sum of the block's part of x (n): shuffles in warps, shared memory between them.
__global__ void sum_blocks(unsigned* sums, const unsigned* x, unsigned n);
/// y = x reversed within each block, through dynamic shared memory.
__global__ void reverse_blocks(float* y, const float* x);
/// total[0] = the sum of x: each block adds a part, and the last block to finish joins the parts (n_blocks).
__global__ void sum_all(unsigned* total, unsigned* parts, unsigned* done, const unsigned* x, unsigned n);
/// The same in two other ways: what a block writes, the last one reads.
__global__ void joins(unsigned* total, unsigned* parts, unsigned* done);
__global__ void joins_with_own_fences(unsigned* total, unsigned* parts, unsigned* done);
/// y = x (16-byte words), 4 tiles a block through asynchronous copies, two on their way at once.
__global__ void copy_tiles(Words* y, const Words* x);
/// What each lane gets: [0] __shfl_sync of lane 5, [1] of xor 3, [2] down 4, [3] up 4, [4] ballot of odd lanes, [5]
/// any, [6] all.
__global__ void warp_words(unsigned* out);
/// The halves of a warp exchange among themselves, in turns, and meet again.
__global__ void halves(unsigned* out);
/// y = x reversed in each warp: written before __syncwarp, read after it.
__global__ void reverse_warps(float* y, const float* x);
/// Indices: out[i] = 1000000 block + thread, in 3 dimensions both.
__global__ void indices(unsigned* out);
__global__ void shuffle_many(float* out, unsigned n);
__global__ void multiply_many(float* out, unsigned n);

enum class Kind { kF16, kBf16, kTf32, kS8, kS8Half };
/// One product of packed fragments: a (32 lanes, 4 words), b (32, 2), c (32, 4).
__global__ void multiply(Kind kind, uint32_t* c, const uint32_t* a, const uint32_t* b);

// One fault each. Where a line is named by the error, it says "place: ...".
__global__ void without_barrier(float* y, const float* x);
__global__ void without_second_barrier(float* y, const float* x);
__global__ void without_warp_barrier(float* y, const float* x);
__global__ void half_a_warp_barrier(float* y, const float* x);
__global__ void waits_behind_barrier(Words* y, const Words* x);
__global__ void without_any_copy_wait(Words* y, const Words* x);
__global__ void with_late_copy_wait(Words* y, const Words* x);
__global__ void without_barrier_after_copies(Words* y, const Words* x);
__global__ void barrier_in_branch(unsigned* out);
__global__ void two_barriers(unsigned* out);
__global__ void lane_outside_mask(unsigned* out);
__global__ void lane_that_returned(unsigned* out);
__global__ void lanes_at_two_places(unsigned* out);
__global__ void lanes_with_two_masks(unsigned* out);
__global__ void lane_at_barrier(unsigned* out);
__global__ void lane_not_in_block(unsigned* out);
__global__ void write_past_dynamic(float* out);
__global__ void read_past_dynamic(float* out);
__global__ void read_before_array(float* out);
__global__ void write_past_device_memory(float* out, unsigned n);
__global__ void two_blocks_one_word(unsigned* out);
__global__ void reads_other_block(unsigned* out);
__global__ void takes_turns(unsigned* out, unsigned* turn);
__global__ void joins_without_fence(unsigned* total, unsigned* parts, unsigned* done);
__global__ void joins_before_barrier(unsigned* total, unsigned* parts, unsigned* done);
__global__ void two_warps_one_word(unsigned* out);
__global__ void resets_what_others_read(unsigned* out);
__global__ void load_misaligned(float* out, const float* x);

}  // namespace folio::infer::gpu::test
