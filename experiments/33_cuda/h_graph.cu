#include "experiments/33_cuda/h_graph.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarp;

__device__ unsigned lane() { return threadIdx.x % kWarp; }
/// Returns the index of the output that this warp computes.
__device__ size_t output() { return size_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; }

__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

/// Returns 1 / sqrt(mean(x²) + eps) in all threads of a block.
__device__ float inverse_norm(const FeedForward& f) {
  FOLIO_SHARED(float, sums, kWarps);
  float sum = 0.0F;
  for (size_t i = threadIdx.x; i < f.dim; i += kThreads) sum = fmaf(f.x[i], f.x[i], sum);
  sum = warp_sum(sum);
  if (lane() == 0) sums[threadIdx.x / kWarp] = sum;
  __syncthreads();
  const float total = warp_sum(lane() < kWarps ? sums[lane()] : 0.0F);
  return 1.0F / sqrtf(total / static_cast<float>(f.dim) + f.eps);
}

__device__ float swiglu(float gate, float up) { return gate / (1.0F + exp_of(0.0F - gate)) * up; }

/// Returns the dot product of a row and x, of k elements each, in all lanes of a warp.
__device__ float row_times(const float* row, const float* x, size_t k) {
  float sum = 0.0F;
  for (size_t i = lane(); i < k; i += kWarp) sum = fmaf(row[i], x[i], sum);
  return warp_sum(sum);
}

__global__ __launch_bounds__(kThreads) void norm_row(FeedForward f) {
  const float inverse = inverse_norm(f);
  for (size_t i = threadIdx.x; i < f.dim; i += kThreads) f.normed[i] = f.x[i] * inverse * f.weight[i];
}

__global__ __launch_bounds__(kThreads) void matrix_times(const float* matrix, const float* x, size_t n_out, size_t k,
                                                         float* out) {
  if (output() >= n_out) return;
  const float sum = row_times(matrix + output() * k, x, k);
  if (lane() == 0) out[output()] = sum;
}

__global__ __launch_bounds__(kThreads) void swiglu_each(float* gate, const float* up, size_t n) {
  const size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) gate[i] = swiglu(gate[i], up[i]);
}

__global__ __launch_bounds__(kThreads) void add_each(const float* x, const float* branch, size_t n, float* out) {
  const size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = x[i] + branch[i];
}

/// Computes norm, gate, up and SwiGLU. Each block recomputes the norm of x, which it usually reads from the L2 cache.
/// Each warp computes one element of the gate and up projections.
__global__ __launch_bounds__(kThreads) void norm_gate_up_swiglu(FeedForward f) {
  const float inverse = inverse_norm(f);
  if (output() >= f.hidden) return;
  float gate = 0.0F;
  float up = 0.0F;
  for (size_t i = lane(); i < f.dim; i += kWarp) {
    const float x = f.x[i] * inverse * f.weight[i];
    gate = fmaf(f.gate[output() * f.dim + i], x, gate);
    up = fmaf(f.up[output() * f.dim + i], x, up);
  }
  gate = warp_sum(gate);
  up = warp_sum(up);
  if (lane() == 0) f.gated[output()] = swiglu(gate, up);
}

__global__ __launch_bounds__(kThreads) void down_add(FeedForward f) {
  if (output() >= f.dim) return;
  const float sum = row_times(f.down + output() * f.hidden, f.gated, f.hidden);
  if (lane() == 0) f.out[output()] = f.x[output()] + sum;
}

Grid blocks(size_t n, size_t of_block) { return {static_cast<unsigned>((n + of_block - 1) / of_block)}; }

void multiply(Stream& stream, const float* matrix, const float* x, size_t n_out, size_t k, float* out) {
  launch(matrix_times, blocks(n_out, kWarps), {kThreads}, 0, stream, matrix, x, n_out, k, out);
}

}  // namespace

void feed_forward_launches(Stream& stream, const FeedForward& f) {
  launch(norm_row, {1}, {kThreads}, 0, stream, f);
  multiply(stream, f.gate, f.normed, f.hidden, f.dim, f.gated);
  multiply(stream, f.up, f.normed, f.hidden, f.dim, f.upped);
  launch(swiglu_each, blocks(f.hidden, kThreads), {kThreads}, 0, stream, f.gated, f.upped, f.hidden);
  multiply(stream, f.down, f.gated, f.dim, f.hidden, f.branch);
  launch(add_each, blocks(f.dim, kThreads), {kThreads}, 0, stream, f.x, f.branch, f.dim, f.out);
}
void feed_forward_fused(Stream& stream, const FeedForward& f) {
  launch(norm_gate_up_swiglu, blocks(f.hidden, kWarps), {kThreads}, 0, stream, f);
  launch(down_add, blocks(f.dim, kWarps), {kThreads}, 0, stream, f);
}

}  // namespace folio::experiments
