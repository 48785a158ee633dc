#include "core/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace folio::core {
namespace {

#if defined(__x86_64__)
// clang 16's __builtin_cpu_supports does not know this name.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::Reference:
      return "reference";
    case Isa::Avx2:
      return "avx2";
    case Isa::Avx512:
      return "avx512";
    case Isa::Avx512Vnni:
      return "avx512vnni";
    case Isa::Avx512Bf16:
      return "avx512bf16";
  }
  return "unknown";
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas{Isa::Reference};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) isas.push_back(Isa::Avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    isas.push_back(Isa::Avx512);
    if (__builtin_cpu_supports("avx512vnni")) {
      isas.push_back(Isa::Avx512Vnni);
      if (__builtin_cpu_supports("avx512bf16")) isas.push_back(Isa::Avx512Bf16);
    }
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
