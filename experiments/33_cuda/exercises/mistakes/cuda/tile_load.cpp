// The mistakes, each with the test that must fail first and words of its message:
//     rows_and_columns_swapped: AWholeTileIsCopied: element of row 0 and column 1
//     no_barrier_after: AWholeTileIsCopied: a barrier between them is missing
//     no_barrier_before: TilesFollowOneAnother: a barrier between them is missing
//     no_bounds: OutsideIsZero: correct the index
//     only_rows_checked: OutsideIsZero: correct the index
//     nothing_outside: OutsideIsZero: is NaN, but
//     barrier_in_an_if: OutsideIsZero: all threads of a block go to the same barriers
//     returns_outside: OutsideIsZero: others wait at the barrier
//     down_a_column: AWarpLoadsSideBySide: The number is 32, but
//     pitch_of_32: NoTwoLanesWaitForABank: The number is 31, but
#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "experiments/exercises/mistakes/mistakes.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;

namespace {

constexpr unsigned kTile = 32;

__device__ unsigned pitch_of_tiles() { return wrong("pitch_of_32") ? kTile : kTile + 1; }

__device__ void load_tile(const float* matrix, size_t rows, size_t columns, size_t first_row, size_t first_column,
                          float* tile) {
  const unsigned pitch = pitch_of_tiles();
  const bool down = wrong("down_a_column");
  const unsigned x = down ? threadIdx.y : threadIdx.x;
  const unsigned y = down ? threadIdx.x : threadIdx.y;
  const size_t row = first_row + y;
  const size_t column = first_column + x;
  const bool inside = (row < rows && (column < columns || wrong("only_rows_checked"))) || wrong("no_bounds");
  float* const to = tile + (wrong("rows_and_columns_swapped") ? x * pitch + y : y * pitch + x);
  if (wrong("returns_outside") && !inside) return;
  if (!wrong("no_barrier_before")) __syncthreads();
  if (inside) *to = matrix[row * columns + column];
  if (wrong("barrier_in_an_if")) {
    if (inside) __syncthreads();
    if (!inside) *to = 0.0F;
    return;
  }
  if (!inside && !wrong("nothing_outside")) *to = 0.0F;
  if (!wrong("no_barrier_after")) __syncthreads();
}

__global__ __launch_bounds__(kTile* kTile) void multiply(Linear a) {
  const unsigned pitch = pitch_of_tiles();
  FOLIO_SHARED(float, x, kTile* pitch);
  FOLIO_SHARED(float, w, kTile* pitch);
  const size_t first_row = size_t{blockIdx.y} * kTile;
  const size_t first_out = size_t{blockIdx.x} * kTile;
  float sum = 0.0F;
  for (size_t k = 0; k < a.n_in; k += kTile) {
    load_tile(a.x, a.rows, a.n_in, first_row, k, x);
    load_tile(a.w, a.n_out, a.n_in, first_out, k, w);
    for (unsigned j = 0; j < kTile; ++j) sum = fmaf(x[threadIdx.y * pitch + j], w[threadIdx.x * pitch + j], sum);
  }
  const size_t row = first_row + threadIdx.y;
  const size_t out = first_out + threadIdx.x;
  if (row < a.rows && out < a.n_out) a.out[row * a.n_out + out] = sum;
}

}  // namespace

void linear(Stream& stream, const Linear& layer) {
  const auto tiles = [](size_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  launch(multiply, {tiles(layer.n_out), tiles(layer.rows)}, {kTile, kTile}, 0, stream, layer);
}

}  // namespace folio::exercises
