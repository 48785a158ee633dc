// The kernels for AVX-512 with VNNI, which multiplies sixty-four bytes in one instruction. Only weights in groups need
// it; the other kernels are those of AVX-512. The order of the includes matters:
// clang-format off
#include "infer/cpu/vec_avx512.h"
#include "infer/cpu/ints_avx512.h"
#include "infer/cpu/groups_body.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx512vnni_kernels() {
  static const Kernels table = [] {
    Kernels k = avx512_kernels();
    k.isa = core::Isa::Avx512Vnni;
    k.quantize = quantize;
    k.matmul_groups = matmul_groups;
    return k;
  }();
  return table;
}

}  // namespace folio::infer::kernels
