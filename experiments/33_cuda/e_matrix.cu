#include "experiments/33_cuda/e_matrix.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr unsigned kTile = 32;  // a block of tiled() computes kTile × kTile outputs
constexpr unsigned kThreads = kTile * kTile;
constexpr unsigned kOutputs = 64;  // a block of registers() computes kOutputs × kOutputs outputs
constexpr unsigned kInner = 16;    // columns of a and rows of b that registers() loads to shared memory at a time

__global__ __launch_bounds__(256) void naive(MatrixProduct p) {
  const size_t row = blockIdx.y * 8 + threadIdx.y;
  const size_t column = blockIdx.x * 32 + threadIdx.x;
  if (row >= p.rows || column >= p.columns) return;
  float sum = 0.0F;
  for (size_t i = 0; i < p.inner; ++i) sum = fmaf(p.a[row * p.inner + i], p.b[i * p.columns + column], sum);
  p.c[row * p.columns + column] = sum;
}

__global__ __launch_bounds__(kThreads) void tiled(MatrixProduct p) {
  FOLIO_SHARED(float, a, kThreads);
  FOLIO_SHARED(float, b, kThreads);
  const unsigned y = threadIdx.y;
  const unsigned x = threadIdx.x;
  const size_t row = blockIdx.y * kTile + y;
  const size_t column = blockIdx.x * kTile + x;
  float sum = 0.0F;
  for (size_t first = 0; first < p.inner; first += kTile) {
    a[y * kTile + x] = row < p.rows && first + x < p.inner ? p.a[row * p.inner + first + x] : 0.0F;
    b[y * kTile + x] = first + y < p.inner && column < p.columns ? p.b[(first + y) * p.columns + column] : 0.0F;
    __syncthreads();
    for (unsigned i = 0; i < kTile; ++i) sum = fmaf(a[y * kTile + i], b[i * kTile + x], sum);
    __syncthreads();
  }
  if (row < p.rows && column < p.columns) p.c[row * p.columns + column] = sum;
}

__global__ __launch_bounds__(256) void registers(MatrixProduct p) {
  FOLIO_SHARED(Words, a, kOutputs * kInner / 4);  // an element is four floats, aligned to 16 bytes
  FOLIO_SHARED(Words, b, kInner * kOutputs / 4);
  const unsigned me = threadIdx.x;
  const unsigned row = me / 16 * 4;  // first row of this thread's 4 × 4 outputs, relative to the block's
  const unsigned column = me % 16 * 4;
  const float* from_a = p.a + (blockIdx.y * kOutputs + me / 4) * p.inner + me % 4 * 4;
  const float* from_b = p.b + me / 16 * p.columns + blockIdx.x * kOutputs + column;
  float sums[4][4] = {};
  for (size_t first = 0; first < p.inner; first += kInner) {
    store(a + me, load(from_a + first));
    store(b + me, load(from_b + first * p.columns));
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < kInner; i += 4) {
      Words of_a[4];  // elements of a: four columns of each of four rows
      for (int r = 0; r < 4; ++r) of_a[r] = load(a + ((row + r) * kInner + i) / 4);
      for (int j = 0; j < 4; ++j) {
        const Words of_b = load(b + ((i + j) * kOutputs + column) / 4);
        for (int r = 0; r < 4; ++r) {
          for (int c = 0; c < 4; ++c) sums[r][c] = fmaf(float_of(of_a[r].w[j]), float_of(of_b.w[c]), sums[r][c]);
        }
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r) {
    Words out;
    for (int c = 0; c < 4; ++c) out.w[c] = bits_of(sums[r][c]);
    store(p.c + (blockIdx.y * kOutputs + row + r) * p.columns + blockIdx.x * kOutputs + column, out);
  }
}

unsigned tiles(size_t n, size_t of_tile) { return static_cast<unsigned>((n + of_tile - 1) / of_tile); }

}  // namespace

void matrix_naive(Stream& stream, const MatrixProduct& p) {
  launch(naive, {tiles(p.columns, 32), tiles(p.rows, 8)}, {32, 8}, 0, stream, p);
}
void matrix_tiled(Stream& stream, const MatrixProduct& p) {
  launch(tiled, {tiles(p.columns, kTile), tiles(p.rows, kTile)}, {kTile, kTile}, 0, stream, p);
}
void matrix_registers(Stream& stream, const MatrixProduct& p) {
  launch(registers, {tiles(p.columns, kOutputs), tiles(p.rows, kOutputs)}, {256}, 0, stream, p);
}

}  // namespace folio::experiments
