#include "infer/reference/kernels.h"

namespace folio::infer::kernels {

const Kernels* vector_kernels(core::Isa isa) {
  switch (isa) {
#if FOLIO_AVX512
    case core::Isa::Amx:
      return &amx_kernels();
    case core::Isa::Avx512Bf16:
      return &avx512bf16_kernels();
    case core::Isa::Avx512Vnni:
      return &avx512vnni_kernels();
    case core::Isa::Avx512:
      return &avx512_kernels();
#endif
#if FOLIO_AVX2
    case core::Isa::Avx2:
      return &avx2_kernels();
#endif
    default:
      return nullptr;
  }
}

}  // namespace folio::infer::kernels
