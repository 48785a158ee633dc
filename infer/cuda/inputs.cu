// Packs a product's inputs: rounds or quantizes each row once and stores it in the order of the tensor cores' operand
// (layout.h), because the product reads each input many times. Per row, reads 4 k bytes and writes 1 to 4 k. A single
// row takes 2 to 4 µs, bound by memory latency, so norm.cu and swiglu.cu pack their own results.
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

// Form::Plain: one thread per row. A warp's threads read distant rows, so each 4-byte load costs a 32-byte sector.
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

// One thread per element, with coalesced reads. A warp packs a group of 32, so the group's maximum takes five shuffles.
// A block packs a whole row of F16, because it needs the row's maximum first; other kinds spread a row over many
// blocks.
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
