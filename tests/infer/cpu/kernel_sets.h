// Lists the kernels to test on this machine: those of its instruction sets, and the AMX kernels on emulated tile
// registers if the processor has AVX-512 with BF16.
#pragma once

#include <string>
#include <vector>

#include "infer/reference/kernels.h"

namespace folio::infer {

namespace kernels {
const Kernels& emulated_amx_kernels();
}  // namespace kernels

namespace test {

struct KernelSet {
  std::string name;
  const kernels::Kernels* kernels;
};
inline void PrintTo(const KernelSet& set, std::ostream* out) { *out << set.name; }

inline std::vector<KernelSet> kernel_sets() {
  std::vector<KernelSet> sets;
  for (const core::Isa isa : kernels::isas_with_kernels()) {
    sets.push_back({std::string(core::isa_name(isa)), &kernels::kernels_for(isa)});
  }
#ifdef FOLIO_EMULATED_AMX
  if (sets.back().kernels->isa == core::Isa::Avx512Bf16) {
    sets.push_back({"emulated_amx", &kernels::emulated_amx_kernels()});
  }
#endif
  return sets;
}

}  // namespace test
}  // namespace folio::infer
