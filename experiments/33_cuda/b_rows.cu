#include "experiments/33_cuda/b_rows.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarp;

__device__ float inverse_of(float sum, const Norm& n) { return 1.0F / sqrtf(sum / static_cast<float>(n.dim) + n.eps); }

/// Returns the sum of squares that one of `step` threads computes: x[first]² + x[first + step]² + …
__device__ float squares(const float* x, size_t dim, size_t first, size_t step) {
  float sum = 0.0F;
  for (size_t i = first; i < dim; i += step) sum = fmaf(x[i], x[i], sum);
  return sum;
}

__device__ void scale(const Norm& n, size_t row, float inverse, size_t first, size_t step) {
  const size_t at = row * n.dim;
  for (size_t i = first; i < n.dim; i += step) n.out[at + i] = n.x[at + i] * inverse * n.weight[i];
}

__global__ __launch_bounds__(kThreads) void threads_norm(Norm n) {
  const size_t row = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= n.rows) return;
  scale(n, row, inverse_of(squares(n.x + row * n.dim, n.dim, 0, 1), n), 0, 1);
}

__global__ __launch_bounds__(kThreads) void shared_norm(Norm n) {
  FOLIO_SHARED(float, sums, kThreads);
  const unsigned me = threadIdx.x;
  sums[me] = squares(n.x + blockIdx.x * n.dim, n.dim, me, kThreads);
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (me < half) sums[me] += sums[me + half];
  }
  __syncthreads();
  scale(n, blockIdx.x, inverse_of(sums[0], n), me, kThreads);
}

__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

__global__ __launch_bounds__(kThreads) void shuffles_norm(Norm n) {
  FOLIO_SHARED(float, sums, kWarps);
  const unsigned me = threadIdx.x;
  const float sum = warp_sum(squares(n.x + blockIdx.x * n.dim, n.dim, me, kThreads));
  if (me % kWarp == 0) sums[me / kWarp] = sum;
  __syncthreads();
  const float total = warp_sum(me % kWarp < kWarps ? sums[me % kWarp] : 0.0F);
  scale(n, blockIdx.x, inverse_of(total, n), me, kThreads);
}

}  // namespace

void norm_threads(Stream& stream, const Norm& n) {
  launch(threads_norm, {static_cast<unsigned>((n.rows + kThreads - 1) / kThreads)}, {kThreads}, 0, stream, n);
}
void norm_shared(Stream& stream, const Norm& n) {
  launch(shared_norm, {static_cast<unsigned>(n.rows)}, {kThreads}, 0, stream, n);
}
void norm_shuffles(Stream& stream, const Norm& n) {
  launch(shuffles_norm, {static_cast<unsigned>(n.rows)}, {kThreads}, 0, stream, n);
}

}  // namespace folio::experiments
