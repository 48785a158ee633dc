#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;

namespace {

constexpr unsigned kTile = 32;
constexpr unsigned kPitch = kTile + 1;  // a column's elements are in different banks

__device__ void load_tile(const float* matrix, size_t rows, size_t columns, size_t first_row, size_t first_column,
                          float* tile) {
  const size_t row = first_row + threadIdx.y;
  const size_t column = first_column + threadIdx.x;
  __syncthreads();
  tile[threadIdx.y * kPitch + threadIdx.x] = row < rows && column < columns ? matrix[row * columns + column] : 0.0F;
  __syncthreads();
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
