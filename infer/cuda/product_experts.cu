// Products of a mixture of experts, as in product.cu. An assignment is a pair of a row and one of its experts. A block
// multiplies the inputs of a group of assignments by their expert's matrix. A group has at most eight assignments if
// there are few rows, else up to 64, so that each weight is read once per group. Results are bit for bit those of
// multiply().
#include "infer/cuda/experts.h"
#include "infer/cuda/product_narrow.h"

namespace folio::infer::gpu {
namespace {

// Multiplies the inputs of group blockIdx.y by its expert's matrix. A block computes kRowTiles row tiles.
// cuda_report: product_experts<*, {rows}, {columns}> shares 4096 * rows * columns bytes
template <typename Format, int kRowTiles, int kColumnTiles>
__global__ __launch_bounds__(kNarrowThreads,
                             kColumnTiles == 1 ? 2 : 1) void product_experts(const __grid_constant__ Products products,
                                                                             const PackedInputs x,
                                                                             const Grouped grouped) {
  const ExpertGroup group = grouped.groups[blockIdx.y];
  if (group.n == 0) return;
  const BlockWork work = work_of(products, blockIdx.x, kRowTiles);
  const PackedMatrix& w = work.product->weight;
  const size_t first_column = static_cast<size_t>(blockIdx.y) * kColumnTiles;
  FOLIO_DYNAMIC_SHARED(shared);
  multiply_narrow<Format, kRowTiles, kColumnTiles>(
      w, w.data + static_cast<size_t>(group.expert) * w.bytes(), work.first_tile,
      x.data + first_column * x.tile_bytes(), x.tile_bytes(), ceil_div(group.n, kTileColumns), shared,
      [&](size_t column, size_t output, float total) {
        if (column >= group.n || output >= w.n_out) return;
        if (x.kind == Kind::F16) total *= x.row_scales[first_column * kTileColumns + column];
        const auto assignment = static_cast<size_t>(grouped.assignments[group.first + column]);
        work.product->out[assignment * w.n_out + output] = total;
      });
}

}  // namespace

void multiply_experts(Stream& stream, const PackedInputs& x, const Matmul* products, size_t n_products,
                      const Grouped& grouped) {
  const Products all = products_of(products, n_products);
  with_narrow_tiles(products[0].weight, grouped.size, [&]<typename Format, int kRowTiles, int kColumnTiles>() {
    const Grid grid{static_cast<unsigned>(blocks_of(all, kRowTiles)), grouped.n_groups};
    launch(product_experts<Format, kRowTiles, kColumnTiles>, grid, {kNarrowThreads},
           kNarrowShared<kRowTiles, kColumnTiles>, stream, all, x, grouped);
  });
}

}  // namespace folio::infer::gpu
