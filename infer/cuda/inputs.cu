// Packs the inputs of a product: rounds or quantizes each row once, and puts it in the order in which the tensor cores
// take it (layout.h), so that the product, which reads every input many times, neither rounds nor shuffles.
//
// plain  A thread a row. Threads of a warp read from rows that lie far apart: each 4 bytes cost a sector of 32.
// fast   A thread a number: neighbours read neighbours. A group of 32 numbers is a warp, so its maximum is five
// shuffles.
//        A row of F16 is one block's, which finds its largest number first; those of the other kinds are spread over
//        many blocks. Bytes: 4 k in, 1 to 4 k out for each row. For one row it is bound by the latency of its trips to
//        memory and by what one multiprocessor can do, some 2 to 4 µs, and that is why norm.cu and swiglu.cu do it
//        with their own work.
#include "infer/cuda/inputs.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu {
namespace {

__device__ void pack_group_plain(const float* x, const PackedInputs& to, size_t row, size_t first) {
  uint32_t largest = 0;
  for (size_t i = first; i < first + kGroup && i < to.k; ++i) largest = larger(largest, magnitude(x[i]));
  const GroupScale g = group_scale(largest);
  uint8_t* block = to.data + to.block_offset(row / kTileColumns, first / kBlockK);
  int sum = 0;
  for (size_t i = first; i < first + kGroup; ++i) {
    const int value = i < to.k ? quant_of(x[i], g) : 0;
    put_number<Kind::Groups>(block + to.number_offset(row % kTileColumns, i % kBlockK), value);
    sum += value;
  }
  put_group(to, block, row % kTileColumns, first % kBlockK / kGroup, g.scale, sum);
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
    put_number<kKind>(number, kKind == Kind::F16 ? v * scale : v);
  }
}

template <Kind kKind>
__global__ __launch_bounds__(kPackThreads<kKind>) void pack_fast(const float* x, PackedInputs to) {
  const size_t row = blockIdx.x;
  pack_part<kKind>(to, row, [&](size_t i) { return x[row * to.k + i]; });
}

}  // namespace

void pack_inputs(Stream& stream, const float* x, const PackedInputs& to, Form form) {
  with_kind(to.kind, [&]<Kind kKind>() {
    if (form == Form::Plain) {
      launch(pack_plain<kKind>, {(to.n_rows + 31) / 32}, {32}, 0, stream, x, to);
    } else {
      launch(pack_fast<kKind>, pack_grid<kKind>(to), {kPackThreads<kKind>}, 0, stream, x, to);
    }
  });
}

}  // namespace folio::infer::gpu
