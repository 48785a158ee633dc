// Latent attention (DeepSeek-V2, arXiv:2405.04434), absorbed: all query heads attend to one latent per position, whose
// first elements are also the value. A block of eight warps computes a part of 64 positions for up to 16 (row, head)
// slots: a warp computes the scores of eight positions, then an eighth of the output's dimensions. Sixteen heads share
// each load of a latent, which is read twice, the second time from L1. Parts are joined as in attention.cu.
#include "infer/cuda/attention_join.h"

namespace folio::infer::gpu {
namespace {

constexpr unsigned kLatentWarps = 8;
constexpr unsigned kLatentThreads = kLatentWarps * kWarp;
static_assert(kLatentWarps * 8 == kPartPositions);
constexpr size_t kScoreBytes = kLatentWarps * 512;  // a tile of 16 slots x 8 positions for each warp

template <bool kHalf>
using LatentSizes = HeadSizes<static_cast<int>(kMaxLatentRank), kHalf>;  // for values; keys are in.cache.padded() wide
template <typename H>
inline constexpr int kUnit = 16 / H::kNumberBytes;  // dimensions in a unit: a 16-byte load from one position's latent
// Number of groups of 8 * kUnit output dimensions that a warp computes.
template <typename H>
inline constexpr int kGroups = H::kPadded / (8 * kUnit<H> * static_cast<int>(kLatentWarps));

__device__ unsigned query_bytes(const Attention& in) { return static_cast<unsigned>(in.cache.head_bytes() / 2); }

// Returns the output dimension of a lane's accumulator i in tile 0 of a group. For tile e, add e.
template <typename H>
__device__ unsigned dimension_of(int group, int i) {
  const unsigned of_warp = threadIdx.x / kWarp * kGroups<H> + static_cast<unsigned>(group);
  return (of_warp * 8 + 2 * lane_in_group() + static_cast<unsigned>(i) % 2) * kUnit<H>;
}

// Computes attention over the 64 positions from `begin` on, with a whole block. Calls before(result) with each slot's
// maximum score and sum, then take(group, tiles) with Σ e^(s - max) v for each of the warp's groups of dimensions
// (see dimension_of). `shared` has the queries, then kScoreBytes of scores. Begins with a barrier.
template <typename H, typename Before, typename Take>
__device__ void attend_latents(const Attention& in, uint8_t* shared, const PartBlocks& blocks, int32_t begin,
                               const LaneSlots& slots, Before before, Take take) {
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned t = lane_in_group();
  const unsigned key_tiles = static_cast<unsigned>(in.cache.padded()) / H::kTileDims;
  const unsigned lane_place = lane_id() * 16;
  uint8_t* score_tiles = shared + query_bytes(in);
  __syncthreads();  // the queries are stored, and the scores of the previous part have been read
  Sums sums{};
  const uint8_t* keys = warp < kLatentWarps / 2 ? blocks.keys[0] : blocks.keys[1];
  if (keys != nullptr) {
#pragma unroll 4
    for (unsigned tile = 0; tile < key_tiles; ++tile) {
      const Words k = load(keys + (warp % 4 * key_tiles + tile) * 512 + lane_place);
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const TileA q = tile_a(load(shared + (tile * 2 + half) * 512 + lane_place));
        if constexpr (H::kHalf) {
          multiply_f16(sums, q, tile_b(k, static_cast<int>(half)));
        } else {
          multiply_f32(sums, q, tile_b(k, static_cast<int>(half)));
        }
      }
    }
  }
  store(score_tiles + warp * 512 + lane_place,
        {{bits_of(sums.c[0]), bits_of(sums.c[1]), bits_of(sums.c[2]), bits_of(sums.c[3])}});
  __syncthreads();
  Sums p[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const Words tile = load(score_tiles + j * 512 + lane_place);
#pragma unroll
    for (int i = 0; i < 4; ++i) p[j].c[i] = float_of(tile.w[i]);
  }
  before(weigh(p, begin, slots, in.cap));

  // The product of probabilities and values needs two positions of a dimension in one operand, so a lane loads a unit
  // (kUnit adjacent dimensions) of two positions. Column c of tile e is dimension e of the group's unit c. Latents
  // after the item's last position are replaced by 0: they are not stored yet and may be NaN, and 0 * NaN is NaN.
  const auto latent = [&](int j, unsigned odd, unsigned unit) {
    const unsigned place = (static_cast<unsigned>(j) % 4 * key_tiles + unit / 4) * 32 + (2 * t + odd) * 4 + unit % 4;
    const int32_t position = begin + 8 * j + static_cast<int32_t>(2 * t + odd);
    return position > slots.item_last ? Words{} : load(blocks.keys[j / 4] + place * 16);
  };
#pragma unroll
  for (int group = 0; group < kGroups<H>; ++group) {
    const unsigned unit = (warp * kGroups<H> + static_cast<unsigned>(group)) * 8 + lane_group();
    if ((unit - lane_group()) * kUnit<H> >= in.cache.latent_rank) break;
    Sums tiles[kUnit<H>] = {};
    if constexpr (H::kHalf) {
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        if (blocks.keys[j / 4] == nullptr) break;
        const TileA a{{two_halves(p[j].c[0], p[j].c[1]), two_halves(p[j].c[2], p[j].c[3]),
                       two_halves(p[j + 1].c[0], p[j + 1].c[1]), two_halves(p[j + 1].c[2], p[j + 1].c[3])}};
        const Words v[4] = {latent(j, 0, unit), latent(j, 1, unit), latent(j + 1, 0, unit), latent(j + 1, 1, unit)};
#pragma unroll
        for (int e = 0; e < kUnit<H>; ++e) {
          const auto pair = [&](int n) {  // element e of the two positions
            const uint32_t even = v[n].w[e / 2];
            const uint32_t odd = v[n + 1].w[e / 2];
            return e % 2 == 0 ? (even & 0xFFFFU) | odd << 16U : even >> 16U | (odd & 0xFFFF0000U);
          };
          multiply_f16(tiles[e], a, TileB{{pair(0), pair(2)}});
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (blocks.keys[j / 4] == nullptr) break;
        const TileA a{{bits_of(p[j].c[0]), bits_of(p[j].c[2]), bits_of(p[j].c[1]), bits_of(p[j].c[3])}};
        const Words v[2] = {latent(j, 0, unit), latent(j, 1, unit)};
#pragma unroll
        for (int e = 0; e < kUnit<H>; ++e) multiply_f32(tiles[e], a, TileB{{v[0].w[e], v[1].w[e]}});
      }
    }
    take(group, tiles);
  }
}

// Decode: a block computes one part (64 positions) of an AttentionItem; the last block to finish joins the parts.
// cuda_report: latent_parts<HeadSizes<512, {half}>> shares 9216 * (4 - 2 * half) + 4096 bytes
template <typename H>
__global__ __launch_bounds__(kLatentThreads, 2) void latent_parts(const __grid_constant__ Attention in) {
  FOLIO_DYNAMIC_SHARED(shared);
  constexpr int kStride = H::kPadded + 2;
  const AttentionItem item = in.items[blockIdx.y];
  const LaneSlots slots = slots_of(in, item, 0);
  const auto n_parts = static_cast<uint32_t>(last_part(slots) - first_part(slots) + 1);
  if (blockIdx.x >= n_parts) return;
  float* partials = in.partials + static_cast<size_t>(blockIdx.y) * in.max_parts * in.n_slots * kStride;
  float* to = partials + static_cast<size_t>(blockIdx.x) * in.n_slots * kStride;
  const int32_t part = first_part(slots) + static_cast<int32_t>(blockIdx.x);
  const unsigned g = lane_group();
  store_queries<H>(in, item, 0, shared, threadIdx.x, kLatentThreads, query_bytes(in));
  attend_latents<H>(
      in, shared, blocks_of_part(in, slots, 0, part), part * static_cast<int32_t>(kPartPositions), slots,
      [&](const PartResult& result) {
        if (threadIdx.x >= kWarp || lane_in_group() != 0) return;
        for (unsigned h = 0; h < 2; ++h) {
          if (g + 8 * h >= in.n_slots) break;
          to[(g + 8 * h) * kStride + H::kPadded] = result.max[h];
          to[(g + 8 * h) * kStride + H::kPadded + 1] = result.sum[h];
        }
      },
      [&](int group, const Sums(&tiles)[kUnit<H>]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const unsigned slot = g + static_cast<unsigned>(i) / 2 * 8;
          if (slot >= in.n_slots) break;
#pragma unroll
          for (int e = 0; e < kUnit<H>; ++e)
            to[slot * kStride + dimension_of<H>(group, i) + static_cast<unsigned>(e)] = tiles[e].c[i];
        }
      });
  if (!is_last_block(&in.counters[blockIdx.y], n_parts)) return;
  join_parts<H, kLatentThreads>(in, item, 0, partials, static_cast<int32_t>(n_parts));
  if (threadIdx.x == 0) in.counters[blockIdx.y] = 0;  // reset for the next launch
}

// Prefill: a block computes all parts (64 positions each) of an AttentionItem, one after another.
// cuda_report: latent_rows<HeadSizes<512, {half}>> shares 9216 * (4 - 2 * half) + 4096 bytes
template <typename H>
__global__ __launch_bounds__(kLatentThreads, 1) void latent_rows(const __grid_constant__ Attention in) {
  FOLIO_DYNAMIC_SHARED(shared);
  const AttentionItem item = in.items[gridDim.x - 1 - blockIdx.x];  // longest items first
  if (item.n_rows == 0) return;
  const LaneSlots slots = slots_of(in, item, 0);
  store_queries<H>(in, item, 0, shared, threadIdx.x, kLatentThreads, query_bytes(in));
  float most[2] = {kNothing, kNothing};
  float sum[2] = {0.0F, 0.0F};
  Sums totals[kGroups<H>][kUnit<H>] = {};
  for (int32_t part = first_part(slots); part <= last_part(slots); ++part) {
    JoinFactors join[2];
    attend_latents<H>(
        in, shared, blocks_of_part(in, slots, 0, part), part * static_cast<int32_t>(kPartPositions), slots,
        [&](const PartResult& result) {
          for (int h = 0; h < 2; ++h) {
            join[h] = join_of(most[h], result.max[h]);
            most[h] = larger_of(most[h], result.max[h]);
            sum[h] = joined(sum[h], result.sum[h], join[h]);
          }
        },
        [&](int group, const Sums(&tiles)[kUnit<H>]) {
#pragma unroll
          for (int e = 0; e < kUnit<H>; ++e) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              totals[group][e].c[i] = joined(totals[group][e].c[i], tiles[e].c[i], join[i / 2]);
            }
          }
        });
  }
  for (int h = 0; h < 2; ++h) sum[h] = sum_with_sink(in, slots.head[h], most[h], sum[h]);
#pragma unroll
  for (int group = 0; group < kGroups<H>; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!slot_exists(item, static_cast<int>(lane_group()) + i / 2 * 8)) continue;
#pragma unroll
      for (int e = 0; e < kUnit<H>; ++e) {
        store_output(in, slots.row[i / 2], slots.head[i / 2], dimension_of<H>(group, i) + static_cast<unsigned>(e),
                     totals[group][e].c[i] / sum[i / 2]);
      }
    }
  }
}

}  // namespace

void attention_to_latents(Stream& stream, const Attention& in) {
  const size_t shared = in.cache.head_bytes() / 2 + kScoreBytes;
  if (in.partials == nullptr) {
    launch(in.cache.half ? latent_rows<LatentSizes<true>> : latent_rows<LatentSizes<false>>, {in.n_items},
           {kLatentThreads}, shared, stream, in);
  } else {
    launch(in.cache.half ? latent_parts<LatentSizes<true>> : latent_parts<LatentSizes<false>>,
           {in.max_parts, in.n_items}, {kLatentThreads}, shared, stream, in);
  }
}

}  // namespace folio::infer::gpu
