// Step (g): attention of one query per head over a paged cache. out = softmax(scale · q kᵀ) v.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/device.h"

namespace folio::experiments {

inline constexpr size_t kCachePositions = 16;  ///< positions of a cache block
inline constexpr size_t kQueryDim = 64;        ///< elements of a query, a key or a value
inline constexpr size_t kPartOfPositions = 64;

/// The arguments of attention over a paged cache, in device memory.
struct CachedAttention {
  const float* query;    // (heads, 64)
  const float* cache;    // (blocks, heads, keys then values, 16 positions, 64)
  const int32_t* table;  // cache block of positions 0 to 15, of positions 16 to 31, …
  size_t heads;
  size_t positions;
  float scale;
  float* scores;    // (heads, positions), written by attention_in_passes
  float* partials;  // (heads, parts of 64 positions, 64 + 2), by attention_split: weighted sum, maximum, sum of weights
  float* out;       // (heads, 64)
};

/// Computes attention with a warp per head, in three passes: scores; their maximum; the sum of weighted values.
void attention_in_passes(infer::gpu::Stream& stream, const CachedAttention& a);
/// Computes attention with a warp per head, in one pass: when the maximum grows, the sums so far are rescaled.
void attention_online(infer::gpu::Stream& stream, const CachedAttention& a);
/// Computes attention with a warp for each 64 positions of a head, and a second launch that merges their results.
void attention_split(infer::gpu::Stream& stream, const CachedAttention& a);

}  // namespace folio::experiments
