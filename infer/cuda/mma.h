// Products of small tiles on the tensor cores: a warp multiplies a 16-row operand A by an 8-column operand B and adds
// to a 16 x 8 accumulator. A tile of A is always 512 bytes. Weights are packed so that a lane's 16 bytes are contiguous
// (layout.h): a warp loads a tile with one instruction, without shuffles. Each input row is a column of B, and an
// accumulator column depends only on that column, so a row's result does not depend on the batch.
#pragma once

#include "infer/cuda/kernel.h"

namespace folio::infer::gpu {

// Elements in the registers of lane 4 g + t, g < 8, t < 4 (PTX ISA, "Matrix fragments for mma.m16n8k16" and others).
// "|" separates registers; "2t.." means 2t and 2t+1, "4t.." means 4t to 4t+3.
//
//                 A: row, columns                              B: rows, column                 k
//   f16, bf16     g | g+8 | g | g+8, 2t.. | 2t.. | 2t+8.. | ..   2t.. | 2t+8.., g                16   two per word
//   tf32          g | g+8 | g | g+8, t | t | t+4 | t+4           t | t+4, g                       8   one per word
//   s8            g | g+8 | g | g+8, 4t.. | 4t.. | 4t+16.. | ..  4t.. | 4t+16.., g               32   four per word
//   accumulator   (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)

/// A lane's registers of a 16-row operand A. The element type determines which elements they contain (table above).
struct TileA {
  uint32_t w[4];
};
/// A lane's registers of an 8-column operand B. The element type determines which elements they contain (table above).
struct TileB {
  uint32_t w[2];
};
/// Lane 4 g + t's elements of a 16 x 8 tile of sums: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
struct Sums {
  float c[4];
};
struct IntSums {
  int32_t c[4];
};

/// Returns this thread's lane 4 g + t; lane_group() returns g, lane_in_group() t. blockDim.x must be a multiple of 32.
__device__ inline unsigned lane_id() { return threadIdx.x % kWarp; }
__device__ inline unsigned lane_group() { return lane_id() / 4; }
__device__ inline unsigned lane_in_group() { return lane_id() % 4; }

#ifdef __CUDACC__

/// Adds A B to `s`. Products are exact; they are summed as floats, in an order that the hardware determines.
__device__ inline void multiply_f16(Sums& s, const TileA& a, const TileB& b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(s.c[0]), "+f"(s.c[1]), "+f"(s.c[2]), "+f"(s.c[3])
               : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[0]), "r"(b.w[1]));
}
__device__ inline void multiply_bf16(Sums& s, const TileA& a, const TileB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(s.c[0]), "+f"(s.c[1]), "+f"(s.c[2]), "+f"(s.c[3])
      : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[0]), "r"(b.w[1]));
}
/// Adds A B to the sums. The words of A and B are floats, and only the upper 10 bits of their mantissas are used.
__device__ inline void multiply_tf32(Sums& s, const TileA& a, const TileB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(s.c[0]), "+f"(s.c[1]), "+f"(s.c[2]), "+f"(s.c[3])
      : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[0]), "r"(b.w[1]));
}
/// Returns x truncated to the 10 mantissa bits that a tf32 product uses. tf32_low() returns x - tf32_high(x).
__device__ inline uint32_t tf32_high(uint32_t x) { return x & 0xFFFFE000U; }
__device__ inline uint32_t tf32_low(uint32_t x) {
  return __float_as_uint(__uint_as_float(x) - __uint_as_float(tf32_high(x)));
}
/// Adds A B to `s`. The words of A and B are floats. Each is split into tf32_high() and tf32_low(), and all products
/// except low times low are computed in tf32, so the relative error is about 2^-20.
__device__ inline void multiply_f32(Sums& s, const TileA& a, const TileB& b) {
  const TileA high{{tf32_high(a.w[0]), tf32_high(a.w[1]), tf32_high(a.w[2]), tf32_high(a.w[3])}};
  const TileA low{{tf32_low(a.w[0]), tf32_low(a.w[1]), tf32_low(a.w[2]), tf32_low(a.w[3])}};
  const TileB b_high{{tf32_high(b.w[0]), tf32_high(b.w[1])}};
  multiply_tf32(s, low, b_high);
  multiply_tf32(s, high, TileB{{tf32_low(b.w[0]), tf32_low(b.w[1])}});
  multiply_tf32(s, high, b_high);
}
/// Adds A B to the sums, exactly. Each word of A and B holds four signed bytes.
__device__ inline void multiply_s8(IntSums& s, const TileA& a, const TileB& b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(s.c[0]), "+r"(s.c[1]), "+r"(s.c[2]), "+r"(s.c[3])
               : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[0]), "r"(b.w[1]));
}
/// Adds A B, summed over only 16 of the 32 columns of A: the first 16 (words 0 and 1 of A, word 0 of B) if `half` is 0,
/// the last 16 (words 2 and 3 of A, word 1 of B) if it is 1.
__device__ inline void multiply_s8_half(IntSums& s, const TileA& a, const TileB& b, int half) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(s.c[0]), "+r"(s.c[1]), "+r"(s.c[2]), "+r"(s.c[3])
               : "r"(a.w[2 * half]), "r"(a.w[2 * half + 1]), "r"(b.w[half]));
}

#else

void multiply_f16(Sums& s, const TileA& a, const TileB& b, std::source_location at = std::source_location::current());
void multiply_bf16(Sums& s, const TileA& a, const TileB& b, std::source_location at = std::source_location::current());
void multiply_f32(Sums& s, const TileA& a, const TileB& b, std::source_location at = std::source_location::current());
void multiply_s8(IntSums& s, const TileA& a, const TileB& b, std::source_location at = std::source_location::current());
void multiply_s8_half(IntSums& s, const TileA& a, const TileB& b, int half,
                      std::source_location at = std::source_location::current());

#endif

}  // namespace folio::infer::gpu
