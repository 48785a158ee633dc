#include "infer/reference/kernels.h"

namespace folio::infer::kernels {

const Kernels* vector_kernels(core::Isa isa) {
  switch (isa) {
    case core::Isa::NeonI8mm:
      return &neoni8mm_kernels();
    case core::Isa::Neon:
      return &neon_kernels();
    default:
      return nullptr;
  }
}

}  // namespace folio::infer::kernels
