// NEON kernels with byte dot products, in a file of their own because it is compiled for them. The include order
// matters:
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
