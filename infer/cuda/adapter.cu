// LoRA adapters (Hu et al. 2021) of a step's rows: t_j = scale Σ_k x_k a[j, k], then out_i += Σ_j t_j b[i, j].
#include "infer/cuda/block.h"
#include "infer/cuda/kernel.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu {
namespace {

// One block per row, since rows may have different adapters. First, each warp computes some elements of t = scale A x;
// then each thread computes some outputs. A row's sums don't depend on other rows, so batching doesn't change results.
__global__ __launch_bounds__(kBlockThreads) void add_adapters(const float* x, size_t k, const int32_t* slots,
                                                              const AdapterPart* parts, float* out, size_t n_out) {
  FOLIO_SHARED(float, t, kMaxAdapterRank);
  const int32_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  const AdapterPart part = parts[slot];
  x += blockIdx.x * k;
  out += blockIdx.x * n_out;
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned j = threadIdx.x / kWarp; j < part.rank; j += kBlockWarps) {
    float sum = 0.0F;
    for (size_t i = lane; i < k; i += kWarp) sum = fmaf(x[i], part.a[j * k + i], sum);
    sum = warp_sum(sum);
    if (lane == 0) t[j] = part.scale * sum;
  }
  __syncthreads();
  for (size_t i = threadIdx.x; part.rank > 0 && i < n_out; i += kBlockThreads) {
    float sum = 0.0F;
    for (unsigned j = 0; j < part.rank; ++j) sum = fmaf(t[j], part.b[i * part.rank + j], sum);
    out[i] += sum;
  }
}

}  // namespace

void add_adapted(Stream& stream, const float* x, size_t n_rows, size_t k, const int32_t* slots,
                 const AdapterPart* parts, float* out, size_t n_out) {
  launch(add_adapters, {static_cast<unsigned>(n_rows)}, {kBlockThreads}, 0, stream, x, k, slots, parts, out, n_out);
}

}  // namespace folio::infer::gpu
