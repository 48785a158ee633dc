// Multiplies few rows by a matrix, out = x · weightᵀ, for decode. Memory-bound: each of the n_out * k weights is read
// once. k is split into the same eight parts for any number of rows, here and in product_tiled.cu, and the columns of a
// tile are independent, so a row's result does not depend on the batch.
#include "infer/cuda/product_narrow.h"

namespace folio::infer::gpu {
namespace {

constexpr size_t kMostNarrow = 64;  // maximum rows for product_narrow; more rows use product_tiled.cu

// A block computes 16 outputs (the rows of a tile), or 32 for 9 to 64 input rows, which halves the reads of inputs.
// Each of its eight warps sums over an eighth of k; the eight sums are added in order. A warp loads 512 contiguous
// bytes at a time, several tiles ahead of the multiplications, to hide memory latency. With a single input row, seven
// of the tensor cores' eight columns are unused, which costs no time because the product is memory-bound.
// cuda_report: product_narrow<*, {rows}, {columns}> shares 4096 * rows * columns bytes
template <typename Format, int kRowTiles, int kColumnTiles>
__global__ __launch_bounds__(kNarrowThreads,
                             kColumnTiles == 1 ? 2 : 1) void product_narrow(const __grid_constant__ Products products,
                                                                            const PackedInputs x) {
  const BlockWork work = work_of(products, blockIdx.x, kRowTiles);
  const PackedMatrix& w = work.product->weight;
  const size_t first_column = static_cast<size_t>(blockIdx.y) * kColumnTiles;
  FOLIO_DYNAMIC_SHARED(shared);
  multiply_narrow<Format, kRowTiles, kColumnTiles>(
      w, w.data, work.first_tile, x.data + first_column * x.tile_bytes(), x.tile_bytes(),
      x.column_tiles() - first_column, shared, [&](size_t column, size_t output, float total) {
        finish(*work.product, x, first_column * kTileColumns + column, output, total);
      });
}

}  // namespace

void multiply(Stream& stream, const PackedInputs& x, const Matmul* products, size_t n_products, bool fast_sums) {
  const Products all = products_of(products, n_products);
  if (x.n_rows > kMostNarrow) return multiply_tiled(stream, x, all, fast_sums);
  with_narrow_tiles(products[0].weight, x.n_rows, [&]<typename Format, int kRowTiles, int kColumnTiles>() {
    const Grid grid{static_cast<unsigned>(blocks_of(all, kRowTiles)),
                    static_cast<unsigned>(ceil_div(x.column_tiles(), kColumnTiles))};
    launch(product_narrow<Format, kRowTiles, kColumnTiles>, grid, {kNarrowThreads},
           kNarrowShared<kRowTiles, kColumnTiles>, stream, all, x);
  });
}

}  // namespace folio::infer::gpu
