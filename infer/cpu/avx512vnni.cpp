// AVX-512 with VNNI: one instruction for sixty-four products of bytes. All other kernels are AVX-512's.
// Only this file is compiled with its instructions. The kernels need the Vec before them:
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
