// AVX-512 kernels without VNNI, BF16 or AMX. Later headers use the types of earlier ones, so the include order
// is fixed:
// clang-format off
#include "infer/cpu/vec_avx512.h"
#include "infer/cpu/ints_avx512.h"
#include "infer/cpu/kernels_body.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx512_kernels() {
  static constexpr Kernels table = table_of(core::Isa::Avx512);
  return table;
}

}  // namespace folio::infer::kernels
