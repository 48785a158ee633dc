#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "core/isa.h"

namespace folio::core {

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas{Isa::Reference};
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
    isas.push_back(Isa::Neon);
    if ((::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) isas.push_back(Isa::NeonI8mm);
  }
  return isas;
}

bool prefetches_streams() { return false; }

}  // namespace folio::core
