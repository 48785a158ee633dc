#include <algorithm>

#include "core/error.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {

std::vector<core::Isa> isas_with_kernels() {
  std::vector<core::Isa> isas = core::supported_isas();
  std::erase_if(isas, [](core::Isa isa) { return kernels_for(isa).isa != isa; });
  return isas;
}

const Kernels& kernels_for(core::Isa isa) {
  const auto supported = core::supported_isas();
  core::require(std::find(supported.begin(), supported.end(), isa) != supported.end(),
                "this machine does not support the instruction set {}", core::isa_name(isa));
  const Kernels* table = vector_kernels(isa);
  return table != nullptr ? *table : reference_kernels();
}

bool fast_pays() {
  const Kernels& kernels = kernels_for(core::select_isa());
#if defined(__x86_64__)
  if (kernels.isa == core::Isa::Avx512Bf16 && __builtin_cpu_is("intel")) return false;
#endif
  return kernels.matmul_fast != nullptr;
}

}  // namespace folio::infer::kernels
