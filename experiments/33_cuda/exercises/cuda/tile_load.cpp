// Loads of tiles with bounds checks. A block of 32 × 32 threads computes 32 × 32 outputs of a linear layer, one per
// thread. It loops over n_in in steps of 32: the block loads a tile of x and a tile of w into shared memory, one
// element per thread, and then each thread adds 32 products. So an element is loaded once for 32 outputs.
//
// A matrix rarely has a whole number of tiles. Elements outside of it must not be read, and count as 0. Shared memory
// is not initialized (the emulator fills it with NaN).
//
// Three mistakes are common:
//   - Missing barriers: a thread uses elements that others load. A barrier must separate the loads from this use, and
//     the use from the loads of the next tile. All threads of the block must call __syncthreads().
//   - Scattered loads: the lanes of a warp have the same threadIdx.y, and threadIdx.x from 0 to 31. They should load
//     neighboring elements at the same time.
//   - Bank conflicts: element i of shared memory is in bank i % 32. Lanes that access different elements of one bank
//     wait for each other. multiply() reads the tile of w down a column. You may choose kPitch, the distance between
//     rows of a tile.
//
// Check it with: make exercise N=tile_load
#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;

namespace {

constexpr unsigned kTile = 32;
constexpr unsigned kPitch = kTile;  // element (row, column) of a tile has the index row * kPitch + column

// Loads the tile of `matrix` (rows, columns) whose first element is (first_row, first_column). All threads of the block
// call it. On entry, other threads may still be reading the old tile. On return, the whole new tile must be loaded.
__device__ void load_tile(const float* matrix, size_t rows, size_t columns, size_t first_row, size_t first_column,
                          float* tile) {
  throw Unfilled(
      "load_tile is still to be written, in experiments/33_cuda/exercises/cuda/tile_load.cpp.\n"
      "Each thread stores one element of the matrix, or 0 outside of it, between two barriers.");
}

__global__ __launch_bounds__(kTile* kTile) void multiply(Linear a) {
  FOLIO_SHARED(float, x, kTile* kPitch);
  FOLIO_SHARED(float, w, kTile* kPitch);
  const size_t first_row = size_t{blockIdx.y} * kTile;
  const size_t first_out = size_t{blockIdx.x} * kTile;
  float sum = 0.0F;
  for (size_t k = 0; k < a.n_in; k += kTile) {
    load_tile(a.x, a.rows, a.n_in, first_row, k, x);
    load_tile(a.w, a.n_out, a.n_in, first_out, k, w);
    for (unsigned j = 0; j < kTile; ++j) sum = fmaf(x[threadIdx.y * kPitch + j], w[threadIdx.x * kPitch + j], sum);
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
