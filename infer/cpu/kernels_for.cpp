#include <algorithm>

#include "core/error.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Returns the kernels for an instruction set, or null if this build has none for it.
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
#if defined(__aarch64__)
    case core::Isa::NeonI8mm:
      return &neoni8mm_kernels();
    case core::Isa::Neon:
      return &neon_kernels();
#endif
    default:
      return nullptr;
  }
}

}  // namespace

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
