// Small kernels that use infer/cuda/kernel.h. Those of right_kernels.cu are correct; those of wrong_kernels.cu have one
// bug each, which the emulator must detect.
#pragma once

#include "infer/cuda/kernel.h"

namespace folio::infer::gpu::test {

// Kernels without bugs. They are launched with one-dimensional blocks unless stated otherwise.
__global__ void scale(float* x, float by, unsigned n);
/// Two kernels in which each thread writes an element of parts (n_blocks * threads) and the last block adds them. In
/// joins(), one thread of each block calls __threadfence(); in joins_with_own_fences(), every thread does.
__global__ void joins(unsigned* total, unsigned* parts, unsigned* done);
__global__ void joins_with_own_fences(unsigned* total, unsigned* parts, unsigned* done);
/// Writes four results of each lane: __shfl_sync from lane 5, __shfl_xor_sync by 3, __shfl_down_sync by 4,
/// __shfl_up_sync by 4.
__global__ void warp_words(unsigned* out);
/// Shuffles within each half of a warp, one half after the other, and then in the whole warp.
__global__ void halves(unsigned* out);
/// Writes the indices of a three-dimensional launch: out[i] = 1000000 block + thread.
__global__ void indices(unsigned* out);

// Kernels with one bug each. A line that the error must name ends with "place: ..." in wrong_kernels.cu.
__global__ void without_barrier(float* y, const float* x);
__global__ void without_second_barrier(float* y, const float* x);
__global__ void without_warp_barrier(float* y, const float* x);
__global__ void half_a_warp_barrier(float* y, const float* x);
__global__ void waits_after_barrier(Words* y, const Words* x);
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
__global__ void takes_turns(unsigned* out);
__global__ void joins_without_fence(unsigned* total, unsigned* parts, unsigned* done);
__global__ void joins_before_barrier(unsigned* total, unsigned* parts, unsigned* done);
__global__ void two_warps_one_word(unsigned* out);
__global__ void resets_what_others_read(unsigned* out);
__global__ void load_misaligned(float* out, const float* x);

}  // namespace folio::infer::gpu::test
