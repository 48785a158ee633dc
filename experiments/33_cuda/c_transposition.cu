#include "experiments/33_cuda/c_transposition.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr unsigned kTile = 32;  // number of rows and of columns of a tile
constexpr unsigned kRows = 8;   // rows that a block's warps read at once
constexpr unsigned kThreads = kTile * kRows;

__global__ __launch_bounds__(kThreads) void naive(Transposition t) {
  const size_t column = blockIdx.x * kTile + threadIdx.x;
  for (unsigned i = threadIdx.y; i < kTile; i += kRows) {
    const size_t row = blockIdx.y * kTile + i;
    if (row < t.rows && column < t.columns) t.out[column * t.rows + row] = t.in[row * t.columns + column];
  }
}

template <int kPitch>
__global__ __launch_bounds__(kThreads) void tiled(Transposition t) {
  FOLIO_SHARED(float, tile, (kTile * kPitch));
  const size_t first_row = blockIdx.y * kTile;
  const size_t first_column = blockIdx.x * kTile;
  const unsigned x = threadIdx.x;
  for (unsigned y = threadIdx.y; y < kTile; y += kRows) {
    if (first_row + y >= t.rows || first_column + x >= t.columns) continue;
    tile[y * kPitch + x] = t.in[(first_row + y) * t.columns + first_column + x];
  }
  __syncthreads();
  for (unsigned y = threadIdx.y; y < kTile; y += kRows) {
    if (first_column + y >= t.columns || first_row + x >= t.rows) continue;
    t.out[(first_column + y) * t.rows + first_row + x] = tile[x * kPitch + y];
  }
}

void transpose(void (*kernel)(Transposition), Stream& stream, const Transposition& t) {
  const auto tiles = [](size_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  launch(kernel, {tiles(t.columns), tiles(t.rows)}, {kTile, kRows}, 0, stream, t);
}

}  // namespace

void transpose_naive(Stream& stream, const Transposition& t) { transpose(naive, stream, t); }
void transpose_tiled(Stream& stream, const Transposition& t) { transpose(tiled<32>, stream, t); }
void transpose_padded(Stream& stream, const Transposition& t) { transpose(tiled<33>, stream, t); }

}  // namespace folio::experiments
