#include "core/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/error.h"

namespace folio::core {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::Reference:
      return "reference";
    case Isa::Avx2:
      return "avx2";
    case Isa::Avx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas{Isa::Reference};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isas.push_back(Isa::Avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    isas.push_back(Isa::Avx512);
  }
#endif
  return isas;
}

Isa select_isa() {
  const std::vector<Isa> isas = supported_isas();
  const char* forced = std::getenv("FOLIO_ISA");
  if (forced == nullptr || *forced == '\0') return isas.back();
  std::string names;
  for (const Isa isa : isas) {
    if (isa_name(isa) == forced) return isa;
    names += (names.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  fail("FOLIO_ISA={} is unknown or not supported by this machine, which has: {}", printable(forced), names);
}

}  // namespace folio::core
