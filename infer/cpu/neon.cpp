// NEON kernels with byte dot products. Later headers use the types of earlier ones, so the include order is fixed.
// clang-format off
#include "infer/cpu/vec_neon.h"
#include "infer/cpu/ints_neon.h"
#include "infer/cpu/kernels_body.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& neon_kernels() {
  static constexpr Kernels table = table_of(core::Isa::Neon);
  return table;
}

}  // namespace folio::infer::kernels
