// The kernels for NEON with dot products of bytes. Only this file is compiled with its instructions. The order of the
// includes matters:
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
