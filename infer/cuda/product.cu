// A matrix times few vectors: out = x · weightᵀ, as decoding needs it. Each weight is read once and used for one or a
// few rows, so the memory's bandwidth bounds it: n_out k numbers, over bytes a second.
//
// plain  A thread an output. It walks along a row of weights, so neighbouring threads read far apart, and one chain of
//        additions waits for itself.
// fast   A block takes 16 outputs (a tile's rows), each of its eight warps an eighth of k. A lane loads 16 bytes, a
// warp
//        512 that lie together, several tiles ahead of the products, so that some 64 KB a multiprocessor are on their
//        way: bandwidth times latency. The tensor cores multiply by eight rows of inputs at once; for one row seven of
//        eight products are of nothing, which costs no time, as the cores wait for memory anyway. At the end the eight
//        sums are added in order. More rows (up to 64) let a block take 32 outputs, to read the inputs half as often.
//
// k is cut in the same eight parts for every number of rows, here and in product_tiled.cu, and a column of a tile
// doesn't depend on the others: so a row's result does not depend on its companions.
//
// cuda_report: product_narrow<*, {rows}, {columns}> shares 4096 * rows * columns bytes
#include "infer/cuda/product_body.h"

namespace folio::infer::gpu {
namespace {

constexpr unsigned kThreads = kSplits * kWarp;
constexpr size_t kTileNumbers = kTileRows * kTileColumns;
constexpr size_t kMostNarrow = 64;  // rows

__global__ void product_plain(const float* x, size_t n_rows, Product p) {
  const size_t output = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (output >= p.weight.n_out) return;
  for (size_t row = 0; row < n_rows; ++row) {
    float total = 0.0F;
    for (size_t i = 0; i < p.weight.k; ++i)
      total = fmaf(weight_at(p.weight, output, i), x[row * p.weight.k + i], total);
    p.out[row * p.weight.n_out + output] = p.bias == nullptr ? total : p.bias[output] + total;
  }
}

template <typename Format, int kRowTiles, int kColumnTiles>
__global__ __launch_bounds__(kThreads,
                             kColumnTiles == 1 ? 2 : 1) void product_narrow(const __grid_constant__ Products products,
                                                                            const PackedInputs x) {
  constexpr int kUnroll = kColumnTiles == 1 ? Format::kUnroll : 1;  // many products hide what one load takes
  const Work work = work_of(products, blockIdx.x, kRowTiles);
  const PackedMatrix& w = work.product->weight;
  const size_t first_column = static_cast<size_t>(blockIdx.y) * kColumnTiles;
  const size_t column_tiles = x.column_tiles() - first_column;  // of this block, or more
  const size_t split = threadIdx.x / kWarp;
  const size_t steps_of_block = kBlockK / Format::kStepColumns;
  const size_t per_split = split_blocks(w.k_blocks());
  const size_t begin = (split * per_split < w.k_blocks() ? split * per_split : w.k_blocks()) * steps_of_block;
  const size_t end = ((split + 1) * per_split < w.k_blocks() ? (split + 1) * per_split : w.k_blocks()) * steps_of_block;
  const size_t step_bytes = Format::step_bytes(w);

  const uint8_t* weights[kRowTiles];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {  // behind the last tile, the last one again: its sums are not stored
    const size_t tile = work.first_tile + m < w.row_tiles() ? work.first_tile + m : w.row_tiles() - 1;
    weights[m] = w.data + tile * w.tile_bytes();
  }
  const uint8_t* inputs = x.data + first_column * x.tile_bytes();

  Sums sums[kRowTiles][kColumnTiles] = {};
  for (size_t step = begin; step < end; step += kUnroll) {
    typename Format::Weights loaded[kUnroll][kRowTiles];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (step + u >= end) break;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        Format::template load_weights<true>(w, weights[m] + (step + u) * step_bytes, loaded[u][m]);
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (step + u >= end) break;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        if (static_cast<size_t>(n) >= column_tiles) break;
        const uint8_t* column = inputs + n * x.tile_bytes() + (step + u) * Format::kInputBytes;
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) Format::multiply(loaded[u][m], column, sums[m][n]);
      }
    }
  }

  FOLIO_DYNAMIC_SHARED(shared);  // (splits, row tiles, column tiles, lanes, 4)
  auto* parts = reinterpret_cast<float*>(shared);
  constexpr size_t kNumbers = kRowTiles * kColumnTiles * kTileNumbers;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      float* to = parts + split * kNumbers + (m * kColumnTiles + n) * kTileNumbers + lane_id() * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = sums[m][n].c[i];
    }
  }
  __syncthreads();
  const size_t n_splits = ceil_div(w.k_blocks(), per_split);
  for (size_t number = threadIdx.x; number < kNumbers; number += kThreads) {
    float total = parts[number];
    for (size_t s = 1; s < n_splits; ++s) total += parts[s * kNumbers + number];
    const size_t tile = number / kTileNumbers;
    const size_t lane = number % kTileNumbers / 4;
    const size_t i = number % 4;
    const size_t output = (work.first_tile + tile / kColumnTiles) * kTileRows + lane / 4 + i / 2 * 8;
    const size_t row = (first_column + tile % kColumnTiles) * kTileColumns + lane % 4 * 2 + i % 2;
    finish(*work.product, x, row, output, total);
  }
}

template <typename Format, int kRowTiles, int kColumnTiles>
void launch_narrow(Stream& stream, const PackedInputs& x, const Products& products) {
  const Grid grid{static_cast<unsigned>(blocks_of(products, kRowTiles)),
                  static_cast<unsigned>(ceil_div(x.column_tiles(), kColumnTiles))};
  const size_t shared = kSplits * kRowTiles * kColumnTiles * kTileNumbers * sizeof(float);
  launch(product_narrow<Format, kRowTiles, kColumnTiles>, grid, {kThreads}, shared, stream, products, x);
}

}  // namespace

void multiply(Stream& stream, const PackedInputs& x, const Product* products, size_t n_products, bool fast_sums) {
  const Products all = products_of(products, n_products);
  if (x.n_rows > kMostNarrow) return multiply_tiled(stream, x, all, fast_sums);
  with_format(products[0].weight, [&]<typename Format>() {
    if (x.n_rows <= kTileColumns) {
      launch_narrow<Format, 1, 1>(stream, x, all);
    } else {
      launch_narrow<Format, 2, 8>(stream, x, all);
    }
  });
}

void multiply_plain(Stream& stream, const float* x, size_t n_rows, const Product& product) {
  launch(product_plain, {static_cast<unsigned>(ceil_div(product.weight.n_out, 128))}, {128}, 0, stream, x, n_rows,
         product);
}

}  // namespace folio::infer::gpu
