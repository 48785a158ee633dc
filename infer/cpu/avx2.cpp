// AVX2 kernels. Only this file is compiled for AVX2. Later headers use the types of earlier ones, so the include order
// is fixed:
// clang-format off
#include "infer/cpu/ints_avx2.h"
#include "infer/cpu/kernels_body.h"
#include "infer/cpu/groups_avx2.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx2_kernels() {
  static constexpr Kernels table = [] {
    Kernels k = table_of(core::Isa::Avx2);
    k.matmul_groups = matmul_groups_avx2;
    return k;
  }();
  return table;
}

}  // namespace folio::infer::kernels
