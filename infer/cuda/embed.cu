// Embedding lookup, gathering of rows that need logits, additions to the residual, and scaling and capping of logits.
// One thread per element. Bound by memory: 4 bytes read and 4 written for each element.
#include "infer/cuda/block.h"
#include "infer/cuda/kernels.h"
#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {
namespace {

// Returns the scale or minimum at `index` (PackedMatrix::scale_index()), stored as F16 if `half`, else as F32.
__device__ float scale_at(const uint8_t* scales, size_t index, bool half) {
  return half ? from_f16(reinterpret_cast<const uint16_t*>(scales)[index])
              : reinterpret_cast<const float*>(scales)[index];
}

// Returns weight[row, column] as a float.
__device__ float weight_at(const PackedMatrix& m, size_t row, size_t column) {
  const uint8_t* block = m.data + m.block_offset(row / kTileRows, column / kBlockK);
  const size_t r = row % kTileRows;
  const size_t c = column % kBlockK;
  const uint8_t* number = block + m.number_offset(r, c);
  if (m.kind == Kind::F32) return *reinterpret_cast<const float*>(number);
  if (m.kind == Kind::F16) return from_f16(*reinterpret_cast<const uint16_t*>(number));
  if (m.kind == Kind::BF16) return from_bf16(*reinterpret_cast<const uint16_t*>(number));
  const int quant = m.bits == 8 ? *reinterpret_cast<const int8_t*>(number)
                                : static_cast<int>(*number >> m.nibble_shift(c) & 15U) - m.zero_point;
  const uint8_t* scales = block + m.number_block_bytes();
  const size_t index = m.scale_index(r, c);
  const float value = scale_at(scales, index, m.half_scales) * static_cast<float>(quant);
  return m.minimums ? value + scale_at(scales + m.scale_block_bytes(), index, m.half_scales) : value;
}

__global__ __launch_bounds__(kBlockThreads) void embed_rows(PackedMatrix table, const int32_t* tokens,
                                                            const int32_t* drawn, float scale, float* out) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (i >= table.k) return;
  int32_t token = tokens[blockIdx.y];
  if (token < 0) token = drawn[-1 - token];
  if (token < 0) token = 0;  // the draw failed, and this row's result is not used
  out[blockIdx.y * static_cast<size_t>(table.k) + i] = weight_at(table, static_cast<size_t>(token), i) * scale;
}

__global__ __launch_bounds__(kBlockThreads) void gather_rows(const float* from, const int32_t* rows, size_t dim,
                                                             float* to) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (i < dim) to[blockIdx.y * dim + i] = from[static_cast<size_t>(rows[blockIdx.y]) * dim + i];
}

__global__ __launch_bounds__(kBlockThreads) void add_numbers(float* x, Delta delta, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (i < n) x[i] += delta.scale * delta.numbers[i];
}

__global__ __launch_bounds__(kBlockThreads) void finish_each(float* x, size_t n, float scale, float cap) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (i >= n) return;
  const float scaled = x[i] * scale;
  x[i] = cap > 0.0F ? soft_capped(scaled, cap) : scaled;
}

unsigned blocks_of(size_t n) { return static_cast<unsigned>(ceil_div(n, kBlockThreads)); }

}  // namespace

void embed(Stream& stream, const PackedMatrix& table, const int32_t* tokens, const int32_t* drawn, float scale,
           size_t n_rows, float* out) {
  launch(embed_rows, {blocks_of(table.k), static_cast<unsigned>(n_rows)}, {kBlockThreads}, 0, stream, table, tokens,
         drawn, scale, out);
}

void gather(Stream& stream, const float* from, const int32_t* rows, size_t n, size_t dim, float* to) {
  launch(gather_rows, {blocks_of(dim), static_cast<unsigned>(n)}, {kBlockThreads}, 0, stream, from, rows, dim, to);
}

void add(Stream& stream, float* x, const Delta& delta, size_t n) {
  launch(add_numbers, {blocks_of(n)}, {kBlockThreads}, 0, stream, x, delta, n);
}

void finish_logits(Stream& stream, float* x, size_t n, float scale, float cap) {
  launch(finish_each, {blocks_of(n)}, {kBlockThreads}, 0, stream, x, n, scale, cap);
}

}  // namespace folio::infer::gpu
