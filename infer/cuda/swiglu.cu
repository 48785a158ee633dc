// Gated activations: gate = silu(gate) * up with silu(x) = x / (1 + e^-x) (Shazeer 2020), or variants with GELU or with
// clamped inputs. Bound by memory: 8 bytes read and 4 written per element, for about a dozen operations.
#include "infer/cuda/activation.h"
#include "infer/cuda/inputs.h"
#include "infer/cuda/kernels.h"

namespace folio::infer::gpu {
namespace {

__global__ __launch_bounds__(kBlockThreads) void swiglu_plain(Activation activation, float* gate, const float* up,
                                                              size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (i < n) gate[i] = gated(activation, gate[i], up[i]);
}

// Computes the activation and packs it as the next product's inputs (inputs.cu), which avoids reading it again.
template <Kind kKind>
__global__ __launch_bounds__(kPackThreads<kKind>) void swiglu_pack_rows(Activation activation, float* gate,
                                                                        const float* up, PackedInputs packed) {
  gate += blockIdx.x * size_t{packed.k};
  up += blockIdx.x * size_t{packed.k};
  gate_and_pack<kKind, 14>(activation, gate, up, packed, blockIdx.x);
}

}  // namespace

void activate(Stream& stream, Activation activation, float* gate, const float* up, size_t n) {
  launch(swiglu_plain, {static_cast<unsigned>(ceil_div(n, kBlockThreads))}, {kBlockThreads}, 0, stream, activation,
         gate, up, n);
}

void activate_pack(Stream& stream, Activation activation, float* gate, const float* up, const PackedInputs& packed) {
  with_kind(packed.kind, [&]<Kind kKind>() {
    launch(swiglu_pack_rows<kKind>, pack_grid<kKind>(packed), {kPackThreads<kKind>}, 0, stream, activation, gate, up,
           packed);
  });
}

}  // namespace folio::infer::gpu
