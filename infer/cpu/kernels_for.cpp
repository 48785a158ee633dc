#include <algorithm>

#include "core/error.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {

std::vector<core::Isa> isas_with_kernels() {
  std::vector<core::Isa> isas = core::supported_isas();
  std::erase(isas, core::Isa::Avx512Bf16);  // no kernel here multiplies numbers of that type with it
  return isas;
}

const Kernels& kernels_for(core::Isa isa) {
  const auto supported = core::supported_isas();
  core::require(std::find(supported.begin(), supported.end(), isa) != supported.end(),
                "this machine does not have the instruction set {}", core::isa_name(isa));
  switch (isa) {
#if defined(__x86_64__)
    case core::Isa::Avx512Bf16:
    case core::Isa::Avx512Vnni:
      return avx512vnni_kernels();
    case core::Isa::Avx512:
      return avx512_kernels();
    case core::Isa::Avx2:
      return avx2_kernels();
#endif
    default:
      return reference_kernels();
  }
}

}  // namespace folio::infer::kernels
