// Each taking's input times its expert's matrix: the products of product.cu, a group of takings a block's columns.
//
// A step of few rows reads each expert that a row takes once for its outputs, and no other: its bytes are those of the
// chosen experts, and bound it. Groups have eight takings there. Where an expert has more, groups of 64 let a block
// take 32 outputs and read a weight once for all of them; a prompt's products are then bound by the tensor cores, of
// which padding a group to its last tile of eight costs some.
//
// A column's sums depend on its own inputs alone, and k is cut as everywhere: a taking's result is the bits of
// multiply() on its row, whatever else its expert got.
//
// cuda_report: product_taken<*, {rows}, {columns}> shares 4096 * rows * columns bytes
#include "infer/cuda/experts.h"
#include "infer/cuda/product_narrow.h"

namespace folio::infer::gpu {
namespace {

template <typename Format, int kRowTiles, int kColumnTiles>
__global__ __launch_bounds__(kNarrowThreads,
                             kColumnTiles == 1 ? 2 : 1) void product_taken(const __grid_constant__ Products products,
                                                                           const PackedInputs x,
                                                                           const Grouped grouped) {
  const ExpertGroup group = grouped.groups[blockIdx.y];
  if (group.n == 0) return;
  const Work work = work_of(products, blockIdx.x, kRowTiles);
  const PackedMatrix& w = work.product->weight;
  const size_t first_column = static_cast<size_t>(blockIdx.y) * kColumnTiles;
  FOLIO_DYNAMIC_SHARED(shared);
  multiply_narrow<Format, kRowTiles, kColumnTiles>(
      w, w.data + static_cast<size_t>(group.expert) * w.bytes(), work.first_tile,
      x.data + first_column * x.tile_bytes(), x.tile_bytes(), ceil_div(group.n, kTileColumns), shared,
      [&](size_t column, size_t output, float total) {
        if (column >= group.n || output >= w.n_out) return;
        if (x.kind == Kind::F16) total *= x.row_scales[first_column * kTileColumns + column];
        const auto taking = static_cast<size_t>(grouped.takings[group.first + column]);
        work.product->out[taking * w.n_out + output] = total;
      });
}

template <typename Format, int kRowTiles, int kColumnTiles>
void launch_taken(Stream& stream, const PackedInputs& x, const Products& products, const Grouped& grouped) {
  const Grid grid{static_cast<unsigned>(blocks_of(products, kRowTiles)), grouped.n_groups};
  const size_t shared = kSplits * kRowTiles * kColumnTiles * kTileNumbers * sizeof(float);
  launch(product_taken<Format, kRowTiles, kColumnTiles>, grid, {kNarrowThreads}, shared, stream, products, x, grouped);
}

}  // namespace

void multiply_experts(Stream& stream, const PackedInputs& x, const Product* products, size_t n_products,
                      const Grouped& grouped) {
  const Products all = products_of(products, n_products);
  with_format(products[0].weight, [&]<typename Format>() {
    if (grouped.size == kTileColumns) {
      launch_taken<Format, 1, 1>(stream, x, all, grouped);
    } else {
      launch_taken<Format, 2, 8>(stream, x, all, grouped);
    }
  });
}

}  // namespace folio::infer::gpu
