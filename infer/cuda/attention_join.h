// Finds the cache blocks of parts (64 positions) and joins their results, for attention.cu and attention_latent.cu.
#pragma once

#include "infer/cuda/attention_body.h"
#include "infer/cuda/block.h"

namespace folio::infer::gpu {

inline constexpr int kBlocksOfPart = kPartPositions / CacheView::kPositions;
inline constexpr int kJoinParts = 32;  ///< parts (64 positions each) whose join factors are computed at once

/// Returns the first and the last part of 64 positions that an item attends to.
__device__ inline int32_t first_part(const LaneSlots& s) { return s.item_first / static_cast<int32_t>(kPartPositions); }
__device__ inline int32_t last_part(const LaneSlots& s) { return s.item_last / static_cast<int32_t>(kPartPositions); }

/// Returns the two cache blocks of a part (64 positions); null pointers past the last position attended to.
__device__ inline PartBlocks blocks_of_part(const Attention& in, const LaneSlots& slots, size_t kv_head, int32_t part) {
  const int32_t* table = in.rows.blocks + in.rows.tables[slots.row[0]];
  PartBlocks blocks;
  for (int b = 0; b < kBlocksOfPart; ++b) {
    const int32_t index = part * kBlocksOfPart + b;
    const bool there = index * static_cast<int32_t>(CacheView::kPositions) <= slots.item_last;
    const size_t block = there ? static_cast<size_t>(table[index]) : 0;
    blocks.keys[b] = there ? in.cache.data + in.cache.key_offset(block, in.layer, kv_head) : nullptr;
    blocks.values[b] = there ? in.cache.data + in.cache.value_offset(block, in.layer, kv_head) : nullptr;
  }
  return blocks;
}

__device__ inline void store_output(const Attention& in, size_t row, size_t head, size_t d, float value) {
  if (d < in.cache.value_dim()) in.out[(row * in.heads.n_heads + head) * in.heads.head_dim + d] = value;
}

/// Joins the results of all parts of 64 positions for an item and key/value head. `partials` is (n_parts, in.n_slots,
/// kPadded + 2): for each slot its output, max and sum. Called by all kThreads threads of the block.
template <typename H, unsigned kThreads>
__device__ void join_parts(const Attention& in, const AttentionItem& item, size_t kv_head, const float* partials,
                           int32_t n_parts) {
  constexpr int kStride = H::kPadded + 2;
  constexpr int kOutputs = static_cast<int>(kItemSlots) * H::kPadded / static_cast<int>(kThreads);
  constexpr int kAtOnce = 8;  // loads in flight per thread
  FOLIO_SHARED(float, keep, kItemSlots* kJoinParts);
  FOLIO_SHARED(float, add, kItemSlots* kJoinParts);      // at first the part's maximum score, later JoinFactors::add
  FOLIO_SHARED(float, before, kItemSlots* kJoinParts);   // maximum score of all earlier parts
  FOLIO_SHARED(float, of_part, kItemSlots* kJoinParts);  // the part's sum of exponentials
  const int n_slots = item.n_rows * item.n_queries;
  const uint32_t floats_per_part = in.n_slots * kStride;  // 32 bits suffice: partials has <= kMostPartials bytes
  const auto number = [&](int32_t part, int slot, int d) {
    return partials[static_cast<uint32_t>(part) * floats_per_part + static_cast<uint32_t>(slot * kStride + d)];
  };
  float most = kNothing;  // maximum score so far of the slot that has this thread's index
  float sum = 0.0F;
  float totals[kOutputs];
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) totals[o] = 0.0F;
  const int thread = static_cast<int>(threadIdx.x);
  // Slot and dimension of the output in totals[o]. If kPadded >= kThreads, slot_of(o) is a compile-time constant in an
  // unrolled loop, which saves registers.
  constexpr int kStep = static_cast<int>(kThreads);
  const auto slot_of = [&](int o) { return o * kStep / H::kPadded + (kStep > H::kPadded ? thread / H::kPadded : 0); };
  const auto dimension_of = [&](int o) { return o * kStep % H::kPadded + thread % H::kPadded; };
  for (int32_t first = 0; first < n_parts; first += kJoinParts) {
    const int n = n_parts - first < kJoinParts ? n_parts - first : kJoinParts;
    for (int i = thread; i < n_slots * kJoinParts; i += static_cast<int>(kThreads)) {
      if (i % kJoinParts >= n) continue;
      add[i] = number(first + i % kJoinParts, i / kJoinParts, H::kPadded);
      of_part[i] = number(first + i % kJoinParts, i / kJoinParts, H::kPadded + 1);
    }
    __syncthreads();
    if (thread < n_slots) {
      for (int i = thread * kJoinParts; i < thread * kJoinParts + n; ++i) {
        before[i] = most;
        most = larger_of(most, add[i]);
      }
    }
    __syncthreads();
    for (int i = thread; i < n_slots * kJoinParts; i += static_cast<int>(kThreads)) {
      if (i % kJoinParts >= n) continue;
      const JoinFactors join = join_of(before[i], add[i]);
      keep[i] = join.keep;
      add[i] = join.add;
    }
    __syncthreads();
    if (thread < n_slots) {
      for (int i = thread * kJoinParts; i < thread * kJoinParts + n; ++i) {
        sum = joined(sum, of_part[i], JoinFactors{keep[i], add[i]});
      }
    }
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      const int slot = slot_of(o);
      if (slot >= n_slots) break;
      for (int part = 0; part < n; part += kAtOnce) {
        float numbers[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          numbers[i] = part + i < n ? number(first + part + i, slot, dimension_of(o)) : 0.0F;
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (part + i >= n) break;
          const JoinFactors join{keep[slot * kJoinParts + part + i], add[slot * kJoinParts + part + i]};
          totals[o] = joined(totals[o], numbers[i], join);
        }
      }
    }
    __syncthreads();
  }
  if (thread < n_slots) before[thread] = sum_with_sink(in, head_of(in, item, kv_head, thread), most, sum);
  __syncthreads();
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    const int slot = slot_of(o);
    if (slot >= n_slots) break;
    store_output(in, row_of(item, slot), head_of(in, item, kv_head, slot), static_cast<size_t>(dimension_of(o)),
                 totals[o] / before[slot]);
  }
}

}  // namespace folio::infer::gpu
