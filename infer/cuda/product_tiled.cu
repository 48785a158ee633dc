// A matrix times many rows, for prefill: 2 n_rows n_out k operations. Bound by the tensor cores rather than by memory,
// because each element that a block loads is used in up to 128 products.
#include "infer/cuda/product_body.h"

namespace folio::infer::gpu {
namespace {

constexpr unsigned kTiledWarps = 8;  // warps of a block: two along the outputs, times four along the rows
constexpr unsigned kTiledThreads = kTiledWarps * kWarp;
constexpr int kStages = 3;    // steps in shared memory at a time
constexpr int kRowTiles = 4;  // row tiles of a warp
constexpr unsigned kRowTilesOfBlock = 2 * kRowTiles;

template <typename Format>
inline constexpr int kColumnTilesOf = Format::kKind == Kind::Groups ? 2 : 4;  // column tiles of a warp
template <typename Format>
inline constexpr unsigned kColumnTilesOfBlock = 4 * kColumnTilesOf<Format>;

// Copies a tile to shared memory with one warp. Both addresses include the lane's offset.
__device__ void copy_tile(uint8_t* to, const uint8_t* from, unsigned bytes) {
#pragma unroll
  for (unsigned at = 0; at + lane_id() * sizeof(Words) < bytes; at += kWarp * sizeof(Words))
    copy_async(to + at, from + at);
}

// A block computes 128 outputs of 128 rows, in steps of four tiles along k. With group-quantized weights, it computes
// 64 rows, since scales need registers. All threads copy a step's weights and inputs to shared memory, two steps ahead;
// eight warps multiply them. A warp has 64 x 32 sums in registers (64 x 16 for groups), so it uses each weight 32 (16)
// times and each input 64 times. k is split at the same columns as in product.cu. After each part of k, the sums are
// added to a second set of registers, unless kFastSums.
// cuda_report: product_tiled<Floats<{kind}>, *> shares 98304 bytes
// cuda_report: product_tiled<Groups<4, 32, {minimums}>, *> shares 58368 + 9216 * minimums bytes
// cuda_report: product_tiled<Groups<8, 32, false>, *> shares 82944 bytes
// cuda_report: product_tiled<Groups<8, *>, *> shares 92160 bytes
template <typename Format, bool kFastSums>
__global__ __launch_bounds__(kTiledThreads, 1) void product_tiled(const __grid_constant__ Products products,
                                                                  const PackedInputs x) {
  constexpr int kColumnTiles = kColumnTilesOf<Format>;
  constexpr unsigned kBlockColumns = kColumnTilesOfBlock<Format>;
  const BlockWork work = work_of(products, blockIdx.y, kRowTilesOfBlock);
  const PackedMatrix& w = work.product->weight;
  const size_t first_column = static_cast<size_t>(blockIdx.x) * kBlockColumns;
  const auto step_bytes = static_cast<unsigned>(Format::step_bytes(w));
  const unsigned weights_bytes = kRowTilesOfBlock * step_bytes;
  const unsigned stage_bytes = weights_bytes + kBlockColumns * Format::kInputBytes;
  const size_t n_steps = w.k_blocks() * (kBlockK / Format::kStepColumns);
  const size_t steps_of_split = split_blocks(w.k_blocks()) * (kBlockK / Format::kStepColumns);

  // Each warp copies one row tile and one or two column tiles per step. A warp past the last tile copies the last tile
  // again.
  static_assert(kRowTilesOfBlock == kTiledWarps && kBlockColumns % kTiledWarps == 0);
  constexpr unsigned kFetched = kBlockColumns / kTiledWarps;
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane_bytes = lane_id() * sizeof(Words);
  const auto tile_at = [&](const uint8_t* data, size_t tile, size_t n_tiles, size_t bytes) {
    return data + (tile < n_tiles ? tile : n_tiles - 1) * bytes + lane_bytes;
  };
  const uint8_t* weights_from = tile_at(w.data, work.first_tile + warp, w.row_tiles(), w.tile_bytes());
  const uint8_t* inputs_from[kFetched];
#pragma unroll
  for (unsigned c = 0; c < kFetched; ++c) {
    inputs_from[c] = tile_at(x.data, first_column + warp + c * kTiledWarps, x.column_tiles(), x.tile_bytes());
  }

  FOLIO_DYNAMIC_SHARED(shared);
  const auto fetch = [&](size_t step) {
    if (step < n_steps) {
      uint8_t* stage = shared + step % kStages * stage_bytes + lane_bytes;
      copy_tile(stage + warp * step_bytes, weights_from + step * step_bytes, step_bytes);
#pragma unroll
      for (unsigned c = 0; c < kFetched; ++c) {
        copy_tile(stage + weights_bytes + (warp + c * kTiledWarps) * Format::kInputBytes,
                  inputs_from[c] + step * Format::kInputBytes, Format::kInputBytes);
      }
    }
    commit_copies();
  };

  const size_t row_tile = warp % 2 * kRowTiles;  // first row tile of the warp, within the block
  const size_t column_tile = warp / 2 * kColumnTiles;
  Sums sums[kRowTiles][kColumnTiles] = {};
  [[maybe_unused]] Sums totals[kRowTiles][kColumnTiles] = {};
  for (int s = 0; s + 1 < kStages; ++s) fetch(static_cast<size_t>(s));
  for (size_t step = 0; step < n_steps; ++step) {
    wait_copies<kStages - 2>();
    __syncthreads();  // this step has arrived, and the buffer of the previous one is free
    fetch(step + kStages - 1);
    const uint8_t* stage = shared + step % kStages * stage_bytes;
    typename Format::Inputs inputs[kColumnTiles];
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      Format::load_inputs(stage + weights_bytes + (column_tile + n) * Format::kInputBytes, inputs[n]);
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      typename Format::Weights weights;
      Format::template load_weights<false>(w, stage + (row_tile + m) * step_bytes, weights);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) Format::multiply(weights, inputs[n], sums[m][n]);
    }
    if constexpr (!kFastSums) {
      if ((step + 1) % steps_of_split != 0 && step + 1 != n_steps) continue;
      const bool first = step < steps_of_split;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& total = totals[m][n].c[i];
            total = first ? sums[m][n].c[i] : total + sums[m][n].c[i];
            sums[m][n].c[i] = 0.0F;
          }
        }
      }
    }
  }
  wait_copies<0>();
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const size_t output = (work.first_tile + row_tile + m) * kTileRows + lane_group() + i / 2 * 8;
        const size_t row = (first_column + column_tile + n) * kTileColumns + lane_in_group() * 2 + i % 2;
        finish(*work.product, x, row, output, kFastSums ? sums[m][n].c[i] : totals[m][n].c[i]);
      }
    }
  }
}

}  // namespace

void multiply_tiled(Stream& stream, const PackedInputs& x, const Products& products, bool fast_sums) {
  with_format(products.list[0].weight, [&]<typename Format>() {
    const Grid grid{static_cast<unsigned>(ceil_div(x.column_tiles(), kColumnTilesOfBlock<Format>)),
                    static_cast<unsigned>(blocks_of(products, kRowTilesOfBlock))};
    size_t step_bytes = 0;  // maximum over the products: scales may be F16 or F32
    for (uint32_t i = 0; i < products.n; ++i) {
      const size_t bytes = Format::step_bytes(products.list[i].weight);
      step_bytes = bytes > step_bytes ? bytes : step_bytes;
    }
    const size_t shared = kStages * (kRowTilesOfBlock * step_bytes + kColumnTilesOfBlock<Format> * Format::kInputBytes);
    launch(fast_sums ? product_tiled<Format, true> : product_tiled<Format, false>, grid, {kTiledThreads}, shared,
           stream, products, x);
  });
}

}  // namespace folio::infer::gpu
