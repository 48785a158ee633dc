// Packs the inputs of a product: rounds or quantizes each row once, and puts it in the order in which the tensor cores
// take it (layout.h), so that the product, which reads every input many times, neither rounds nor shuffles.
//
// plain  A thread a row. Threads of a warp read from rows that lie far apart: each 4 bytes cost a sector of 32.
// fast   A block a row, thread i the numbers i, i + 256, …: neighbours read neighbours. A group of 32 numbers is a
//        warp, so its maximum is five shuffles. Bytes: 4 k in, 1 to 4 k out for each row. For one row it is bound by
//        the latency of two trips to memory, some 2 µs, and that is why norm.cu and swiglu.cu do it with their own
//        work.
#include "infer/cuda/inputs.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu {
namespace {

__device__ void pack_group_plain(const float* x, const PackedInputs& to, size_t row, size_t first) {
  constexpr float kLeast = 1e-30F;
  uint32_t largest = 0;
  for (size_t i = first; i < first + kGroup && i < to.k; ++i) largest = larger(largest, magnitude(x[i]));
  const float m = float_of(largest);
  const bool zero = !(m >= kLeast) || largest >= kInfinity;
  const float inverse = zero ? 0.0F : 127.0F / m;
  uint8_t* block = to.data + to.block_offset(row / kTileColumns, first / kBlockK);
  int sum = 0;
  for (size_t i = first; i < first + kGroup; ++i) {
    const int value = zero || i >= to.k ? 0 : static_cast<int>(round_to_whole(x[i] * inverse));
    *reinterpret_cast<int8_t*>(block + to.number_offset(row % kTileColumns, i % kBlockK)) = static_cast<int8_t>(value);
    sum += value;
  }
  const float scale = m < kLeast ? 0.0F : m / 127.0F;
  const size_t group = first % kBlockK / kGroup;
  *reinterpret_cast<float*>(block + to.scale_offset(row % kTileColumns, group)) = scale;
  *reinterpret_cast<float*>(block + to.sum_offset(row % kTileColumns, group)) = scale * static_cast<float>(sum);
}

template <Kind kKind>
__global__ void pack_plain(const float* x, PackedInputs to) {
  const size_t row = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= to.n_rows) return;
  x += row * to.k;
  const size_t padded = to.k_blocks() * kBlockK;
  if constexpr (kKind == Kind::Groups) {
    for (size_t i = 0; i < padded; i += kGroup) pack_group_plain(x, to, row, i);
    return;
  }
  [[maybe_unused]] float scale = 1.0F;
  if constexpr (kKind == Kind::F16) {
    uint32_t largest = 0;
    for (size_t i = 0; i < to.k; ++i) largest = larger(largest, magnitude(x[i]));
    scale = f16_scale(largest);
    to.row_scales[row] = 1.0F / scale;
  }
  for (size_t i = 0; i < padded; ++i) {
    uint8_t* number =
        to.data + to.block_offset(row / kTileColumns, i / kBlockK) + to.number_offset(row % kTileColumns, i % kBlockK);
    const float v = i < to.k ? x[i] : 0.0F;
    if constexpr (kKind == Kind::F32) *reinterpret_cast<float*>(number) = v;
    if constexpr (kKind == Kind::F16) *reinterpret_cast<uint16_t*>(number) = to_f16(v * scale);
    if constexpr (kKind == Kind::BF16) *reinterpret_cast<uint16_t*>(number) = to_bf16(v);
  }
}

template <Kind kKind>
__global__ __launch_bounds__(kBlockThreads) void pack_fast(const float* x, PackedInputs to) {
  const size_t row = blockIdx.x;
  pack_row<kKind>(to, row, [&](size_t i) { return x[row * to.k + i]; });
}

}  // namespace

void pack_inputs(Stream& stream, const float* x, const PackedInputs& to, Form form) {
  with_kind(to.kind, [&]<Kind kKind>() {
    if (form == Form::Plain) {
      launch(pack_plain<kKind>, {(to.n_rows + 31) / 32}, {32}, 0, stream, x, to);
    } else {
      launch(pack_fast<kKind>, {to.n_rows}, {kBlockThreads}, 0, stream, x, to);
    }
  });
}

}  // namespace folio::infer::gpu
