// Packs a product's inputs: rounds or quantizes each row once and stores it in the order of the tensor cores' operand
// (layout.h), because the product reads each input many times. Per row, reads 4 k bytes and writes 1 to 4 k. A single
// row takes 2 to 4 µs, bound by memory latency, so norm.cu and swiglu.cu pack their own results.
#include "infer/cuda/inputs.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu {
namespace {

// One thread per element, with coalesced reads. A warp packs a group of 32, so the group's maximum takes five shuffles.
// A block packs a whole row of F16, because it needs the row's maximum first; other kinds spread a row over many
// blocks.
template <Kind kKind>
__global__ __launch_bounds__(kPackThreads<kKind>) void pack_rows(const float* x, PackedInputs to) {
  const size_t row = blockIdx.x;
  pack_part<kKind>(to, row, [&](size_t i) { return x[row * to.k + i]; });
}

}  // namespace

void pack_inputs(Stream& stream, const float* x, const PackedInputs& to) {
  with_kind(to.kind, [&]<Kind kKind>() {
    launch(pack_rows<kKind>, pack_grid<kKind>(to), {kPackThreads<kKind>}, 0, stream, x, to);
  });
}

}  // namespace folio::infer::gpu
