// Attention over the paged KV cache, softmax(q kᵀ / sqrt(head_dim)) v, causal, for prefill and decode. Positions are
// split into parts of 64. attention_parts (few rows) and attention_rows (prompts) compute parts with the same function
// and join them in the same order, so a row's result does not depend on how its prompt was split. Parts before a
// sliding window are skipped.
#include "infer/cuda/attention_join.h"

namespace folio::infer::gpu {
namespace {

constexpr unsigned kPartWarps = 4;
constexpr unsigned kPartThreads = kPartWarps * kWarp;
// Warps of an attention_rows block: kGroupItems, or half as many if their queries need much shared memory.
template <typename H>
inline constexpr unsigned kRowWarps = H::kQueryBytes > 8192 ? kGroupItems / 2 : kGroupItems;

// Decode: a warp computes one part of 64 positions for all queries of an AttentionItem. They share a key/value head, so
// keys and values are read only once. Results go to in.partials; an item's last block to finish joins them in order.
// cuda_report: attention_parts<HeadSizes<{dim}, {half}>> shares 16 * dim * (4 - 2 * half) bytes
template <typename H>
__global__ __launch_bounds__(kPartThreads,
                             H::kPadded > 128 ? 2 : 4) void attention_parts(const __grid_constant__ Attention in) {
  FOLIO_DYNAMIC_SHARED(shared);
  constexpr int kStride = H::kPadded + 2;
  const size_t kv_head = blockIdx.y;
  const AttentionItem item = in.items[blockIdx.z];
  const LaneSlots slots = slots_of(in, item, kv_head);
  const int32_t n_parts = last_part(slots) - first_part(slots) + 1;
  if (static_cast<int32_t>(blockIdx.x * kPartWarps) >= n_parts) return;
  const uint32_t n_blocks = static_cast<uint32_t>(ceil_div(static_cast<size_t>(n_parts), kPartWarps));
  const size_t place = blockIdx.z * static_cast<size_t>(in.heads.n_kv_heads) + kv_head;
  float* partials = in.partials + place * in.max_parts * in.n_slots * kStride;

  const unsigned warp = threadIdx.x / kWarp;
  const auto index = static_cast<int32_t>(blockIdx.x * kPartWarps + warp);
  const int32_t part = first_part(slots) + index;
  PartBlocks blocks{};
  if (index < n_parts) {  // prefetches keys and values while the queries are stored
    blocks = blocks_of_part(in, slots, kv_head, part);
    for (int b = 0; b < kBlocksOfPart; ++b) {
      if (blocks.keys[b] == nullptr) break;
      for (int at = static_cast<int>(lane_id()) * 128; at < H::kHeadBytes; at += static_cast<int>(kWarp) * 128) {
        prefetch(blocks.keys[b] + at);
        prefetch(blocks.values[b] + at);
      }
    }
  }
  store_queries<H>(in, item, kv_head, shared, threadIdx.x, kPartThreads);
  __syncthreads();
  if (index < n_parts) {
    float* to = partials + static_cast<size_t>(index) * in.n_slots * kStride;
    const unsigned g = lane_group();
    const unsigned t = lane_in_group();
    attend_part<H>(
        shared, blocks, part * static_cast<int32_t>(kPartPositions), slots, in.cap,
        [&](const PartResult& result) {
          if (t != 0) return;
          for (unsigned h = 0; h < 2; ++h) {
            if (g + 8 * h >= in.n_slots) break;
            to[(g + 8 * h) * kStride + H::kPadded] = result.max[h];
            to[(g + 8 * h) * kStride + H::kPadded + 1] = result.sum[h];
          }
        },
        [&](int n, const Sums& sums) {
#pragma unroll
          for (unsigned i = 0; i < 4; ++i) {
            if (g + i / 2 * 8 >= in.n_slots) break;
            to[(g + i / 2 * 8) * kStride + static_cast<unsigned>(n) * 8 + 2 * t + i % 2] = sums.c[i];
          }
        });
  }
  if (!is_last_block(&in.counters[place], n_blocks)) return;
  join_parts<H, kPartThreads>(in, item, kv_head, partials, n_parts);
  if (threadIdx.x == 0) in.counters[place] = 0;  // reset for the next launch
}

// Copies keys and values of one head and 64 positions to shared memory: two cache blocks of keys, then of values.
template <typename H>
__device__ void fetch_part(const PartBlocks& from, uint8_t* to) {
  for (unsigned b = 0; b < 2; ++b) {
    if (from.keys[b] == nullptr) break;
    for (unsigned at = threadIdx.x * 16; at < static_cast<unsigned>(H::kHeadBytes); at += kRowWarps<H> * kWarp * 16) {
      copy_async(to + b * H::kHeadBytes + at, from.keys[b] + at);
      copy_async(to + (2 + b) * H::kHeadBytes + at, from.values[b] + at);
    }
  }
}

// Prefill: a block processes up to eight items (128 (row, head) slots), one part of 64 positions at a time. With
// kStaged, the next part's keys and values are copied to shared memory (cp.async) while a part is computed.
// cuda_report: attention_rows<HeadSizes<256, false>, false> shares 65536 bytes
// cuda_report: attention_rows<HeadSizes<{dim}, {half}>, false> shares 128 * dim * (4 - 2 * half) bytes
// cuda_report: attention_rows<HeadSizes<{dim}, {half}>, true> shares 384 * dim * (4 - 2 * half) bytes
template <typename H, bool kStaged>
__global__ __launch_bounds__(kRowWarps<H>* kWarp, 1) void attention_rows(const __grid_constant__ Attention in) {
  FOLIO_DYNAMIC_SHARED(shared);  // queries of all warps, then a double buffer of keys and values
  const size_t kv_head = blockIdx.x;
  constexpr unsigned kWarps = kRowWarps<H>;
  const size_t group = gridDim.y - 1 - blockIdx.y;         // longest groups first
  const AttentionItem* items = in.items + group * kWarps;  // items of one sequence; the last ones may be empty
  if (items[0].n_rows == 0) return;
  const unsigned warp = threadIdx.x / kWarp;
  const AttentionItem item = items[warp];
  const LaneSlots slots = slots_of(in, item, kv_head);
  const bool active = item.n_rows > 0;

  // Range of positions that any warp of this block attends to.
  const LaneSlots first = slots_of(in, items[0], kv_head);
  int32_t group_last = first.item_last;
  for (unsigned w = 1; w < kWarps; ++w) {
    const int32_t last = items[w].n_rows > 0 ? in.rows.positions[items[w].row] + items[w].n_rows - 1 : 0;
    group_last = last > group_last ? last : group_last;
  }
  LaneSlots whole = first;
  whole.item_last = group_last;

  uint8_t* queries = shared + warp * H::kQueryBytes;
  uint8_t* stages = shared + kWarps * H::kQueryBytes;
  store_queries<H>(in, item, kv_head, queries, lane_id(), kWarp);
  __syncwarp();

  float most[2] = {kNothing, kNothing};
  float sum[2] = {0.0F, 0.0F};
  Sums totals[H::kValueTiles] = {};
  const int32_t begin = first_part(whole);
  const int32_t end = last_part(whole) + 1;
  if constexpr (kStaged) {
    fetch_part<H>(blocks_of_part(in, whole, kv_head, begin), stages);
    commit_copies();
  }
  for (int32_t part = begin; part < end; ++part) {
    PartBlocks blocks = blocks_of_part(in, slots, kv_head, part);
    if constexpr (kStaged) {
      __syncthreads();  // all warps are done with the part whose buffer is reused
      if (part + 1 < end) {
        fetch_part<H>(blocks_of_part(in, whole, kv_head, part + 1),
                      stages + (part + 1 - begin) % 2 * 4 * H::kHeadBytes);
      }
      commit_copies();
      wait_copies<1>();
      __syncthreads();
      const uint8_t* stage = stages + (part - begin) % 2 * 4 * H::kHeadBytes;
      for (int b = 0; b < 2; ++b) {
        blocks.values[b] = blocks.keys[b] == nullptr ? nullptr : stage + (2 + b) * H::kHeadBytes;
        blocks.keys[b] = blocks.keys[b] == nullptr ? nullptr : stage + b * H::kHeadBytes;
      }
    }
    if (!active || part < first_part(slots) || part > last_part(slots)) continue;
    JoinFactors join[2];
    attend_part<H>(
        queries, blocks, part * static_cast<int32_t>(kPartPositions), slots, in.cap,
        [&](const PartResult& result) {
          for (int h = 0; h < 2; ++h) {
            join[h] = join_of(most[h], result.max[h]);
            most[h] = larger_of(most[h], result.max[h]);
            sum[h] = joined(sum[h], result.sum[h], join[h]);
          }
        },
        [&](int n, const Sums& sums) {
#pragma unroll
          for (int i = 0; i < 4; ++i) totals[n].c[i] = joined(totals[n].c[i], sums.c[i], join[i / 2]);
        });
  }
  wait_copies<0>();
  for (int h = 0; h < 2; ++h) sum[h] = sum_with_sink(in, slots.head[h], most[h], sum[h]);
#pragma unroll
  for (int n = 0; n < H::kValueTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = static_cast<int>(lane_group()) + i / 2 * 8;
      if (!slot_exists(item, slot)) continue;
      store_output(in, slots.row[i / 2], slots.head[i / 2], static_cast<size_t>(n * 8) + 2 * lane_in_group() + i % 2,
                   totals[n].c[i] / sum[i / 2]);
    }
  }
}

template <typename H>
void launch_rows(Stream& stream, const Attention& in) {
  constexpr unsigned kThreads = kRowWarps<H> * kWarp;
  const Grid grid{in.heads.n_kv_heads, in.n_items / kRowWarps<H>};
  constexpr size_t kQueries = kRowWarps<H> * H::kQueryBytes;
  constexpr size_t kStages = size_t{2} * 4 * H::kHeadBytes;
  constexpr size_t kMost = size_t{227} << 10U;  // a block's maximum shared memory on sm_90 and sm_100
  if constexpr (kQueries + kStages <= kMost) {
    if (kQueries + kStages <= in.shared_bytes) {
      return launch(attention_rows<H, true>, grid, {kThreads}, kQueries + kStages, stream, in);
    }
  }
  constexpr size_t kSmall = size_t{99} << 10U;  // consumer GPUs' shared memory: they can't stage larger heads
  if constexpr (kQueries + kStages > kSmall) {
    launch(attention_rows<H, false>, grid, {kThreads}, kQueries, stream, in);
  }
}

template <typename H>
void launch_attention(Stream& stream, const Attention& in) {
  if (in.partials == nullptr) return launch_rows<H>(stream, in);
  const Grid grid{static_cast<unsigned>(ceil_div(in.max_parts, kPartWarps)), in.heads.n_kv_heads, in.n_items};
  launch(attention_parts<H>, grid, {kPartThreads}, H::kQueryBytes, stream, in);
}

template <bool kHalf>
void launch_padded(Stream& stream, const Attention& in) {
  switch (in.cache.padded()) {
    case 32:
      return launch_attention<HeadSizes<32, kHalf>>(stream, in);
    case 64:
      return launch_attention<HeadSizes<64, kHalf>>(stream, in);
    case 128:
      return launch_attention<HeadSizes<128, kHalf>>(stream, in);
    default:
      return launch_attention<HeadSizes<256, kHalf>>(stream, in);
  }
}

}  // namespace

void attention(Stream& stream, const Attention& in) {
  if (in.cache.latent_rank > 0) {
    attention_to_latents(stream, in);
  } else if (in.cache.half) {
    launch_padded<true>(stream, in);
  } else {
    launch_padded<false>(stream, in);
  }
}

}  // namespace folio::infer::gpu
