// AVX-512 kernels without VNNI, BF16 or AMX. kernels_body.h uses the types of ints_avx512.h.
#include "infer/cpu/ints_avx512.h"
#include "infer/cpu/kernels_body.h"

namespace folio::infer::kernels {

const Kernels& avx512_kernels() {
  static constexpr Kernels table = table_of(core::Isa::Avx512);
  return table;
}

}  // namespace folio::infer::kernels
