#include "experiments/33_cuda/a_elements.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr unsigned kThreads = 256;

__device__ float swiglu(float gate, float up) { return gate / (1.0F + exp_of(0.0F - gate)) * up; }

__global__ __launch_bounds__(kThreads) void elements(const float* gate, const float* up, size_t n, float* out) {
  const size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = swiglu(gate[i], up[i]);
}

__global__ __launch_bounds__(kThreads) void eights(const float* gate, const float* up, size_t n, float* out) {
  const size_t first = (size_t{blockIdx.x} * kThreads + threadIdx.x) * 8;
  for (size_t i = first; i < first + 8 && i < n; ++i) out[i] = swiglu(gate[i], up[i]);
}

__global__ __launch_bounds__(kThreads) void fours(const float* gate, const float* up, size_t n, float* out) {
  const size_t first = (size_t{blockIdx.x} * kThreads + threadIdx.x) * 4;
  if (first >= n) return;
  const Words g = load(gate + first);
  const Words u = load(up + first);
  Words o;
  for (int j = 0; j < 4; ++j) o.w[j] = bits_of(swiglu(float_of(g.w[j]), float_of(u.w[j])));
  store(out + first, o);
}

__global__ __launch_bounds__(kThreads) void unchecked(const float* gate, const float* up, float* out) {
  const size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  out[i] = swiglu(gate[i], up[i]);
}

Grid blocks(size_t n, size_t elements_of_block) {
  return {static_cast<unsigned>((n + elements_of_block - 1) / elements_of_block)};
}

}  // namespace

void swiglu_elements(Stream& stream, const float* gate, const float* up, size_t n, float* out) {
  launch(elements, blocks(n, kThreads), {kThreads}, 0, stream, gate, up, n, out);
}
void swiglu_eights(Stream& stream, const float* gate, const float* up, size_t n, float* out) {
  launch(eights, blocks(n, 8 * kThreads), {kThreads}, 0, stream, gate, up, n, out);
}
void swiglu_fours(Stream& stream, const float* gate, const float* up, size_t n, float* out) {
  launch(fours, blocks(n, 4 * kThreads), {kThreads}, 0, stream, gate, up, n, out);
}
void swiglu_unchecked(Stream& stream, const float* gate, const float* up, size_t n, float* out) {
  launch(unchecked, blocks(n, kThreads), {kThreads}, 0, stream, gate, up, out);
}

}  // namespace folio::experiments
