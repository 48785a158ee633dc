// RMSNorm: out_i = x_i / sqrt(mean(x²) + eps) * weight_i (Zhang & Sennrich 2019). Memory-bound, except that a single
// row is bound by the kernel launch.
#include "infer/cuda/inputs.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu {
namespace {

__device__ float inverse_of(float sum, size_t dim, float eps) {
  return 1.0F / sqrtf(sum / static_cast<float>(dim) + eps);
}

// Normalizes narrow vectors, such as the heads of Qwen3, with one warp per vector.
__global__ __launch_bounds__(kBlockThreads) void norm_warp(const float* x, const float* weight, float eps,
                                                           size_t n_vectors, size_t dim, size_t stride, float* out) {
  const size_t row = static_cast<size_t>(blockIdx.x) * kBlockWarps + threadIdx.x / kWarp;
  if (row >= n_vectors) return;
  float sum = 0.0F;
  for (size_t i = threadIdx.x % kWarp; i < dim; i += kWarp) sum = fmaf(x[row * stride + i], x[row * stride + i], sum);
  const float inverse = inverse_of(warp_sum(sum), dim, eps);
  for (size_t i = threadIdx.x % kWarp; i < dim; i += kWarp)
    out[row * stride + i] = x[row * stride + i] * inverse * weight[i];
}

// One block per row: thread i sums the squares of elements i, i + 1024, …. The threads' sums are added by shuffles and
// in shared memory.
__global__ __launch_bounds__(kRowThreads) void norm_block(const float* x, const float* weight, float eps, size_t dim,
                                                          size_t stride, float* out) {
  x += blockIdx.x * stride;
  out += blockIdx.x * stride;
  float sum = 0.0F;
  for (size_t i = threadIdx.x; i < dim; i += kRowThreads) sum = fmaf(x[i], x[i], sum);
  const float inverse = inverse_of(block_sum(sum), dim, eps);
  for (size_t i = threadIdx.x; i < dim; i += kRowThreads) out[i] = x[i] * inverse * weight[i];
}

// Adds a product's result to the residual, normalizes the sum, and packs it as the input of the next product. Three
// separate kernels would move 28 * dim bytes per row. This one moves 16 * dim bytes and saves two launches, which
// matters most for a single row.
template <Kind kKind>
__global__ __launch_bounds__(kRowThreads) void add_norm_pack_rows(float* x, Delta delta, const float* weight, float eps,
                                                                  size_t dim, float* out, PackedInputs packed) {
  x += blockIdx.x * dim;
  out += blockIdx.x * dim;
  const float* add = delta.numbers == nullptr ? nullptr : delta.numbers + blockIdx.x * dim;
  const auto added = [&](size_t i) { return add == nullptr ? x[i] : x[i] + delta.scale * add[i]; };
  constexpr int kHeld = 8;  // elements that each of the 1,024 threads keeps in registers: 8,192 per row
  HeldRow<kHeld> held;
  hold(held, dim, added);
  float sum = 0.0F;
  visit(held, dim, added, [&](size_t i, float v) {
    if (add != nullptr) x[i] = v;
    sum = fmaf(v, v, sum);
  });
  const float inverse = inverse_of(block_sum(sum), dim, eps);
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const size_t i = threadIdx.x + static_cast<size_t>(j) * kRowThreads;
    if (i < dim) held.x[j] = held.x[j] * inverse * weight[i];
  }
  visit(
      held, dim, [&](size_t i) { return x[i] * inverse * weight[i]; }, [&](size_t i, float v) { out[i] = v; });
  // No barrier is needed, since each thread reads only elements of `out` that it wrote.
  pack_row<kKind>(packed, blockIdx.x, held, [&](size_t i) { return out[i]; });
}

}  // namespace

void rms_norm(Stream& stream, const float* x, const float* weight, float eps, size_t n_vectors, size_t dim, float* out,
              size_t stride) {
  if (stride == 0) stride = dim;
  const auto n = static_cast<unsigned>(n_vectors);
  if (dim <= 256) {
    launch(norm_warp, {(n + kBlockWarps - 1) / kBlockWarps}, {kBlockThreads}, 0, stream, x, weight, eps, n_vectors, dim,
           stride, out);
  } else {
    launch(norm_block, {n}, {kRowThreads}, 0, stream, x, weight, eps, dim, stride, out);
  }
}

void add_norm_pack(Stream& stream, float* x, const Delta& delta, const float* weight, float eps, float* out,
                   const PackedInputs& packed) {
  with_kind(packed.kind, [&]<Kind kKind>() {
    launch(add_norm_pack_rows<kKind>, {packed.n_rows}, {kRowThreads}, 0, stream, x, delta, weight, eps,
           static_cast<size_t>(packed.k), out, packed);
  });
}

}  // namespace folio::infer::gpu
