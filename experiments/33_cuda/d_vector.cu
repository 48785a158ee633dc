#include "experiments/33_cuda/d_vector.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kScaled = 32;  // number of consecutive weights that share a scale

__device__ float sum_of_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

__global__ __launch_bounds__(kThreads) void threads(VectorProduct p) {
  const size_t row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= p.rows) return;
  float sum = 0.0F;
  for (size_t i = 0; i < p.columns; ++i) sum = fmaf(p.weights[row * p.columns + i], p.x[i], sum);
  p.out[row] = sum;
}

__global__ __launch_bounds__(kThreads) void warps(VectorProduct p) {
  const size_t row = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  if (row >= p.rows) return;  // the same for all lanes of a warp
  float sum = 0.0F;
  for (size_t i = lane; i < p.columns; i += kWarp) sum = fmaf(p.weights[row * p.columns + i], p.x[i], sum);
  sum = sum_of_warp(sum);
  if (lane == 0) p.out[row] = sum;
}

__global__ __launch_bounds__(kThreads) void quants(QuantizedProduct p) {
  const size_t row = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  if (row >= p.rows) return;
  const int8_t* of_row = p.quants + row * p.columns;
  const uint16_t* scales = p.scales + row * (p.columns / kScaled);
  float sum = 0.0F;
  for (size_t i = 4 * lane; i < p.columns; i += 4 * kWarp) {
    const uint32_t four = *reinterpret_cast<const uint32_t*>(of_row + i);
    const Words x = load(p.x + i);
    float products = 0.0F;
    for (int j = 0; j < 4; ++j) {
      const auto quant = static_cast<int8_t>(four >> (8 * j));
      products = fmaf(static_cast<float>(quant), float_of(x.w[j]), products);
    }
    sum = fmaf(from_f16(scales[i / kScaled]), products, sum);
  }
  sum = sum_of_warp(sum);
  if (lane == 0) p.out[row] = sum;
}

Grid blocks(size_t rows, size_t rows_of_block) {
  return {static_cast<unsigned>((rows + rows_of_block - 1) / rows_of_block)};
}

}  // namespace

void product_threads(Stream& stream, const VectorProduct& p) {
  launch(threads, blocks(p.rows, kThreads), {kThreads}, 0, stream, p);
}
void product_warps(Stream& stream, const VectorProduct& p) {
  launch(warps, blocks(p.rows, kThreads / kWarp), {kThreads}, 0, stream, p);
}
void product_quants(Stream& stream, const QuantizedProduct& p) {
  launch(quants, blocks(p.rows, kThreads / kWarp), {kThreads}, 0, stream, p);
}

}  // namespace folio::experiments
