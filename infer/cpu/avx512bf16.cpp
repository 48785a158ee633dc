// The kernels for AVX-512 with products of BF16, which only --fast takes. The others are those of AVX-512 with VNNI.
// The order of the includes matters:
// clang-format off
#include "infer/cpu/vec_avx512.h"
#include "infer/cpu/fast_bf16.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx512bf16_kernels() {
  static const Kernels table = [] {
    Kernels k = avx512vnni_kernels();
    k.isa = core::Isa::Avx512Bf16;
    k.to_fast = to_fast;
    k.matmul_fast = matmul_fast;
    return k;
  }();
  return table;
}

}  // namespace folio::infer::kernels
