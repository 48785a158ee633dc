// Products with one matrix per head (latent attention), as in product.cu: a block multiplies rows of one head. Bound by
// memory for few rows: each weight is read once per 64 rows. Results are bit for bit those of multiply().
#include "infer/cuda/inputs.h"
#include "infer/cuda/product_narrow.h"

namespace folio::infer::gpu {
namespace {

// Packs the first k elements of each head's rows as inputs.cu does, and fills the rest of the head in `out` with the
// elements after them.
template <Kind kKind>
__global__ __launch_bounds__(kPackThreads<kKind>) void pack_heads(HeadsProduct p, PackedInputs to) {
  const size_t head = blockIdx.x / p.padded_rows();
  const size_t row = blockIdx.x % p.padded_rows();
  if (row >= p.n_rows) return;
  const float* in = p.in + (row * p.n_heads + head) * p.in_dim;
  float* out = p.out + (row * p.n_heads + head) * p.out_dim;
  pack_part<kKind>(to, blockIdx.x, [&](size_t i) { return in[i]; });
  if (blockIdx.y > 0) return;
  const uint32_t n_out = p.weight.n_out;
  for (uint32_t i = n_out + threadIdx.x; i < p.out_dim; i += kPackThreads<kKind>) out[i] = in[p.weight.k + i - n_out];
}

// Multiplies rows of head blockIdx.z by that head's matrix. A block computes kRowTiles row tiles.
// cuda_report: product_heads<*, {rows}, {columns}> shares 4096 * rows * columns bytes
template <typename Format, int kRowTiles, int kColumnTiles>
__global__ __launch_bounds__(kNarrowThreads, kColumnTiles == 1 ? 2 : 1) void product_heads(const HeadsProduct p,
                                                                                           const PackedInputs x) {
  const PackedMatrix& w = p.weight;
  const size_t head = blockIdx.z;
  const size_t first_row = static_cast<size_t>(blockIdx.y) * kColumnTiles * kTileColumns;
  const size_t slot = head * p.padded_rows() + first_row;
  FOLIO_DYNAMIC_SHARED(shared);
  multiply_narrow<Format, kRowTiles, kColumnTiles>(
      w, w.data + head * w.bytes(), static_cast<size_t>(blockIdx.x) * kRowTiles,
      x.data + slot / kTileColumns * x.tile_bytes(), x.tile_bytes(), ceil_div(p.n_rows - first_row, kTileColumns),
      shared, [&](size_t column, size_t output, float total) {
        const size_t row = first_row + column;
        if (row >= p.n_rows || output >= w.n_out) return;
        if (x.kind == Kind::F16) total *= x.row_scales[slot + column];
        p.out[(row * p.n_heads + head) * p.out_dim + output] = total;
      });
}

}  // namespace

void multiply_heads(Stream& stream, const HeadsProduct& p, const PackedInputs& x) {
  with_kind(x.kind, [&]<Kind kKind>() {
    launch(pack_heads<kKind>, pack_grid<kKind>(x), {kPackThreads<kKind>}, 0, stream, p, x);
  });
  with_narrow_tiles(p.weight, p.n_rows, [&]<typename Format, int kRowTiles, int kColumnTiles>() {
    const Grid grid{static_cast<unsigned>(ceil_div(p.weight.row_tiles(), kRowTiles)),
                    static_cast<unsigned>(ceil_div(p.n_rows, kColumnTiles * kTileColumns)), p.n_heads};
    launch(product_heads<Format, kRowTiles, kColumnTiles>, grid, {kNarrowThreads},
           kNarrowShared<kRowTiles, kColumnTiles>, stream, p, x);
  });
}

}  // namespace folio::infer::gpu
