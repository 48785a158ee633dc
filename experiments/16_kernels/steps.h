// A matrix product, improved step by step. Memory is Direct or CountingMemory. Every step adds the products of an
// output in increasing order of k, except the vector step, which has a partial sum per lane.
#pragma once

#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

inline constexpr size_t kTileRows = 4;  ///< rows of w in a tile; r must be a multiple of 4

/// Computes the product one column of w at a time. Consecutive reads of w are k floats apart in memory.
template <typename Memory>
void by_columns(Memory& memory, const Product& p) {
  for (size_t n = 0; n < p.n; ++n) {
    for (size_t r = 0; r < p.r; ++r) memory.store(p.out + n * p.r + r, 0.0F);
    for (size_t k = 0; k < p.k; ++k) {
      const float x = memory.load(p.x + n * p.k + k);
      for (size_t r = 0; r < p.r; ++r) {
        float* out = p.out + n * p.r + r;
        memory.store(out, memory.multiply_add(x, memory.load(p.w + r * p.k + k), memory.load(out)));
      }
    }
  }
}

template <typename Memory>
float dot(Memory& memory, const float* x, const float* w, size_t k) {
  float sum = 0.0F;
  for (size_t i = 0; i < k; ++i) sum = memory.multiply_add(memory.load(x + i), memory.load(w + i), sum);
  return sum;
}

/// Computes the product one row of w at a time. Reads all of w again for each input.
template <typename Memory>
void by_rows(Memory& memory, const Product& p) {
  for (size_t n = 0; n < p.n; ++n) {
    for (size_t r = 0; r < p.r; ++r) {
      memory.store(p.out + n * p.r + r, dot(memory, p.x + n * p.k, p.w + r * p.k, p.k));
    }
  }
}

/// Like by_rows() with the outer loops swapped: each row of w is fetched from memory once and used for all inputs.
template <typename Memory>
void weights_once(Memory& memory, const Product& p) {
  for (size_t r = 0; r < p.r; ++r) {
    for (size_t n = 0; n < p.n; ++n) {
      memory.store(p.out + n * p.r + r, dot(memory, p.x + n * p.k, p.w + r * p.k, p.k));
    }
  }
}

/// Computes the product in tiles of four rows of w and kInputs inputs (1 or 2, a divisor of n). Each loaded element of
/// x is used for four multiply-adds, each of w for kInputs; the sums stay in registers.
template <size_t kInputs, typename Memory>
void tiles(Memory& memory, const Product& p) {
  for (size_t r = 0; r < p.r; r += kTileRows) {
    for (size_t n = 0; n < p.n; n += kInputs) {
      float sum[kTileRows][kInputs] = {};
      for (size_t k = 0; k < p.k; ++k) {
        float x[kInputs];
        for (size_t j = 0; j < kInputs; ++j) x[j] = memory.load(p.x + (n + j) * p.k + k);
        for (size_t i = 0; i < kTileRows; ++i) {
          const float w = memory.load(p.w + (r + i) * p.k + k);
          for (size_t j = 0; j < kInputs; ++j) sum[i][j] = memory.multiply_add(x[j], w, sum[i][j]);
        }
      }
      for (size_t i = 0; i < kTileRows; ++i) {
        for (size_t j = 0; j < kInputs; ++j) memory.store(p.out + (n + j) * p.r + r + i, sum[i][j]);
      }
    }
  }
}

/// Computes the outputs for rows [begin, end) of w like tiles(), but with vectors: lane l adds the products whose index
/// is l modulo the number of lanes. Vec is a compiler vector type. k must be a multiple of the number of lanes.
template <typename Vec, size_t kInputs, typename Memory>
void vector_tiles(Memory& memory, const Product& p, size_t begin, size_t end) {
  constexpr size_t kLanes = sizeof(Vec) / sizeof(float);
  for (size_t r = begin; r < end; r += kTileRows) {
    for (size_t n = 0; n < p.n; n += kInputs) {
      Vec sum[kTileRows][kInputs] = {};
      for (size_t k = 0; k < p.k; k += kLanes) {
        Vec x[kInputs];
        for (size_t j = 0; j < kInputs; ++j) memory.load(p.x + (n + j) * p.k + k, x[j]);
        for (size_t i = 0; i < kTileRows; ++i) {
          Vec w;
          memory.load(p.w + (r + i) * p.k + k, w);
          for (size_t j = 0; j < kInputs; ++j) memory.multiply_add(x[j], w, sum[i][j]);
        }
      }
      for (size_t i = 0; i < kTileRows; ++i) {
        for (size_t j = 0; j < kInputs; ++j) {
          float total = 0.0F;
          for (size_t l = 0; l < kLanes; ++l) total += sum[i][j][l];
          memory.store(p.out + (n + j) * p.r + r + i, total);
        }
      }
    }
  }
}

}  // namespace folio::experiments
