// One warp's attention over a part of 64 positions, for up to sixteen (row, head) slots that share a key/value head.
// Tensor cores compute scores and outputs from keys and values in the cache's layout. attention.cu passes pointers into
// the cache or into a copy in shared memory; results are the same.
#pragma once

#include <limits>

#include "infer/cuda/kernels.h"
#include "infer/cuda/mma.h"
#include "infer/cuda/product_body.h"

namespace folio::infer::gpu {

inline constexpr float kNothing = -std::numeric_limits<float>::infinity();  ///< maximum of an empty set of scores

/// Sizes of a head that is padded to kPaddedDim elements of F16 or F32.
template <int kPaddedDim, bool kF16>
struct HeadSizes {
  static constexpr int kPadded = kPaddedDim;
  static constexpr bool kHalf = kF16;
  static constexpr int kWordNumbers = kHalf ? 2 : 1;
  static constexpr int kTileDims = 16 * kWordNumbers;    ///< head dimensions in a tile of keys: two mma steps
  static constexpr int kKeyTiles = kPadded / kTileDims;  ///< tiles of keys per eight positions
  static constexpr int kValueTiles = kPadded / 8;
  static constexpr int kNumberBytes = kHalf ? 2 : 4;
  static constexpr int kQueryBytes = 16 * kPadded * kNumberBytes;  ///< queries of a warp's sixteen slots
  static constexpr int kHeadBytes = 32 * kPadded * kNumberBytes;   ///< keys, or values, of a head in a cache block
};

__device__ inline float larger_of(float a, float b) { return a > b ? a : b; }

/// Packs two floats as F16 into one operand word.
__device__ inline uint32_t two_halves(float low, float high) {
  return to_f16(low) | static_cast<uint32_t>(to_f16(high)) << 16U;
}

/// The two (row, head) slots of an AttentionItem that a lane computes: lane_group() and lane_group() + 8.
struct LaneSlots {
  size_t row[2];     ///< row of the step
  size_t head[2];    ///< query head
  int32_t first[2];  ///< the slot attends to positions [first, last]; last is -1 for an empty slot
  int32_t last[2];
  int32_t item_first;  ///< first and last position that any slot of the AttentionItem attends to
  int32_t item_last;
};

/// Returns the first position that a row at `position` attends to, with a window of `window` positions.
__device__ inline int32_t first_seen(int32_t position, int32_t window) {
  return position + 1 > window ? position + 1 - window : 0;
}

/// Returns the step's row of the (row, head) slot with index `slot`. head_of() returns the slot's query head.
__device__ inline size_t row_of(const AttentionItem& item, int slot) {
  return static_cast<size_t>(item.row + slot / item.n_queries);
}
__device__ inline size_t head_of(const Attention& in, const AttentionItem& item, size_t kv_head, int slot) {
  return kv_head * in.heads.queries() + static_cast<size_t>(item.query + slot % item.n_queries);
}
__device__ inline bool slot_exists(const AttentionItem& item, int slot) { return slot < item.n_rows * item.n_queries; }

__device__ inline LaneSlots slots_of(const Attention& in, const AttentionItem& item, size_t kv_head) {
  LaneSlots s;
  for (int h = 0; h < 2; ++h) {
    const int slot = static_cast<int>(lane_group()) + 8 * h;
    const bool exists = slot_exists(item, slot);
    s.row[h] = row_of(item, exists ? slot : 0);
    s.head[h] = head_of(in, item, kv_head, exists ? slot : 0);
    const int32_t position = in.rows.positions[s.row[h]];
    s.first[h] = first_seen(position, in.window);
    s.last[h] = exists ? position : -1;
  }
  const int32_t position = in.rows.positions[item.row];
  s.item_first = first_seen(position, in.window);
  s.item_last = position + item.n_rows - 1;
  return s;
}

/// Writes an item's queries, times in.scale, as mma operands: 16 bytes per lane and mma step, `bytes` in total. Each
/// of n_threads threads writes some of the words; synchronize before reading.
template <typename H>
__device__ void store_queries(const Attention& in, const AttentionItem& item, size_t kv_head, uint8_t* to,
                              unsigned thread, unsigned n_threads, unsigned bytes = H::kQueryBytes) {
#pragma unroll 4
  for (unsigned i = thread; i < bytes / 4; i += n_threads) {  // one word per iteration
    const unsigned lane = i / 4 % kWarp;
    const unsigned word = i % 4;
    const unsigned step = i / 128;
    const int slot = static_cast<int>(lane / 4 + word % 2 * 8);
    // Orders dimensions as CacheView::key_index does, so that a lane's words of two steps are consecutive.
    const unsigned d =
        step / 2 * H::kTileDims + lane % 4 * (4 * H::kWordNumbers) + (step % 2 * 2 + word / 2) * H::kWordNumbers;
    float x[2] = {0.0F, 0.0F};
    if (slot_exists(item, slot)) {
      const float* query =
          in.query + (row_of(item, slot) * in.heads.n_heads + head_of(in, item, kv_head, slot)) * in.heads.head_dim;
      for (unsigned e = 0; e < H::kWordNumbers; ++e) {
        if (d + e < in.heads.head_dim) x[e] = query[d + e] * in.scale;
      }
    }
    reinterpret_cast<uint32_t*>(to)[i] = H::kHalf ? two_halves(x[0], x[1]) : bits_of(x[0]);
  }
}

/// Addresses of one head's keys and values in a part's two cache blocks (64 positions); null past the last position.
struct PartBlocks {
  const uint8_t* keys[2];
  const uint8_t* values[2];
};

/// Softmax state over a part of 64 positions, for the lane's two slots with scores s: max s and Σ e^(s - max).
struct PartResult {
  float max[2];
  float sum[2];
};

/// Replaces each score s of the 64 positions from `begin` on by e^(s - max), and returns the maximums and sums. Caps
/// scores if cap > 0. Masks positions that a slot does not attend to, even if their scores are NaN.
__device__ inline PartResult weigh(Sums (&scores)[8], int32_t begin, const LaneSlots& slots, float cap) {
  const unsigned t = lane_in_group();
  PartResult part{{kNothing, kNothing}, {0.0F, 0.0F}};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t position = begin + 8 * j + static_cast<int32_t>(2 * t) + i % 2;
      const bool seen = position >= slots.first[i / 2] && position <= slots.last[i / 2];
      if (cap > 0.0F) scores[j].c[i] = soft_capped(scores[j].c[i], cap);
      scores[j].c[i] = seen ? scores[j].c[i] : kNothing;
      part.max[i / 2] = larger_of(part.max[i / 2], scores[j].c[i]);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    part.max[h] = larger_of(part.max[h], __shfl_xor_sync(kAllLanes, part.max[h], 1));
    part.max[h] = larger_of(part.max[h], __shfl_xor_sync(kAllLanes, part.max[h], 2));
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float s = scores[j].c[i];
      scores[j].c[i] = s == kNothing ? 0.0F : exp_of(s - part.max[i / 2]);
      part.sum[i / 2] += scores[j].c[i];
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    part.sum[h] += __shfl_xor_sync(kAllLanes, part.sum[h], 1);
    part.sum[h] += __shfl_xor_sync(kAllLanes, part.sum[h], 2);
  }
  return part;
}

/// Computes attention over the 64 positions from `begin` on. Calls before(result) with each slot's maximum score and
/// sum, then take(n, sums) with Σ e^(s - max) v for dimensions 8 n to 8 n + 7. The accumulators of a score tile (16
/// slots x 8 positions) have the layout of the next product's operand, so probabilities stay in registers.
template <typename H, typename Before, typename Take>
__device__ void attend_part(const uint8_t* queries, const PartBlocks& blocks, int32_t begin, const LaneSlots& slots,
                            float cap, Before before, Take take) {
  const unsigned t = lane_in_group();
  Sums scores[8] = {};
#pragma unroll 1
  for (int tile = 0; tile < H::kKeyTiles; ++tile) {
    const TileA q0 = tile_a(load(queries + (tile * 2) * 512 + lane_id() * 16));
    const TileA q1 = tile_a(load(queries + (tile * 2 + 1) * 512 + lane_id() * 16));
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (blocks.keys[j / 4] == nullptr) break;
      const Words k =
          load(blocks.keys[j / 4] + ((j % 4 * H::kKeyTiles + tile) * 32 + static_cast<int>(lane_id())) * 16);
      if constexpr (H::kHalf) {
        multiply_f16(scores[j], q0, tile_b(k, 0));
        multiply_f16(scores[j], q1, tile_b(k, 1));
      } else {
        multiply_f32(scores[j], q0, tile_b(k, 0));
        multiply_f32(scores[j], q1, tile_b(k, 1));
      }
    }
  }
  const PartResult part = weigh(scores, begin, slots, cap);
  before(part);

  // Clears values past the item's last position. They are not stored yet and may be NaN, and 0 * NaN is NaN.
  const bool whole = begin + static_cast<int32_t>(kPartPositions) - 1 <= slots.item_last;
  const auto cleared = [&](uint32_t word, int32_t position) {
    if (position > slots.item_last) return 0U;
    return H::kHalf && position == slots.item_last ? word & 0xFFFFU : word;
  };
  // Issues the loads of several tiles before the first use. The compiler cannot move loads ahead of a call of take(),
  // because it must assume that take() overwrites the values.
  constexpr int kAtOnce = (H::kHalf ? 4 : 2) / (H::kPadded > 128 ? 2 : 1);
  constexpr int kLoads = H::kHalf ? 1 : 2;  // 16-byte loads of a lane per value tile and cache block
#pragma unroll
  for (int first = 0; first < H::kValueTiles; first += kAtOnce) {
    Words words[kAtOnce][2][kLoads] = {};
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      if (blocks.values[b] == nullptr) break;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int d = (first + i) * 8 + static_cast<int>(lane_group());
        const uint8_t* at = blocks.values[b] + (d * 32 + static_cast<int>(8 * t)) * H::kNumberBytes;
#pragma unroll
        for (int l = 0; l < kLoads; ++l) words[i][b][l] = load(at + l * 16);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      Sums sums{};
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        if (blocks.values[b] == nullptr) break;
        if constexpr (H::kHalf) {
          Words v = words[i][b][0];
          if (!whole) {
            for (int j = 0; j < 4; ++j) v.w[j] = cleared(v.w[j], begin + 32 * b + 8 * j + static_cast<int32_t>(2 * t));
          }
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            const Sums& p0 = scores[b * 4 + pair * 2];
            const Sums& p1 = scores[b * 4 + pair * 2 + 1];
            multiply_f16(sums,
                         TileA{{two_halves(p0.c[0], p0.c[1]), two_halves(p0.c[2], p0.c[3]),
                                two_halves(p1.c[0], p1.c[1]), two_halves(p1.c[2], p1.c[3])}},
                         tile_b(v, pair));
          }
        } else {
#pragma unroll
          for (int two = 0; two < 2; ++two) {
            Words v = words[i][b][two];
            if (!whole) {
              for (int j = 0; j < 4; ++j) {
                v.w[j] = cleared(v.w[j], begin + 32 * b + 8 * (two * 2 + j / 2) + static_cast<int32_t>(2 * t) + j % 2);
              }
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              const Sums& p = scores[b * 4 + two * 2 + j];
              multiply_f32(sums, TileA{{bits_of(p.c[0]), bits_of(p.c[2]), bits_of(p.c[1]), bits_of(p.c[3])}},
                           tile_b(v, j));
            }
          }
        }
      }
      take(first + i, sums);
    }
  }
}

/// Returns the denominator of a head's softmax: `sum`, plus e^(sink - max) if it has a sink.
__device__ inline float sum_with_sink(const Attention& in, size_t head, float max, float sum) {
  return in.sinks == nullptr ? sum : sum + exp_of(in.sinks[head] - max);
}

/// Factors that join a part's output (64 positions) with the output of all earlier parts: total * keep + part * add.
struct JoinFactors {
  float keep;
  float add;
};
__device__ inline JoinFactors join_of(float max_before, float max_part) {
  const float most = larger_of(max_before, max_part);
  return {exp_of(max_before - most), exp_of(max_part - most)};  // an empty part adds nothing: its sum is 0
}
__device__ inline float joined(float total, float part, const JoinFactors& join) {
  return fmaf(part, join.add, total * join.keep);
}

}  // namespace folio::infer::gpu
