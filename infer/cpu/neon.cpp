// NEON kernels with byte dot products. kernels_body.h uses the types of ints_neon.h.
#include "infer/cpu/ints_neon.h"
#include "infer/cpu/kernels_body.h"

namespace folio::infer::kernels {

const Kernels& neon_kernels() {
  static constexpr Kernels table = table_of(core::Isa::Neon);
  return table;
}

}  // namespace folio::infer::kernels
