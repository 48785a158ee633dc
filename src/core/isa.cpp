#include "core/isa.h"

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
    case Isa::Avx512Vnni:
      return "avx512vnni";
    case Isa::Avx512Bf16:
      return "avx512bf16";
    case Isa::Amx:
      return "amx";
    case Isa::Neon:
      return "neon";
    case Isa::NeonI8mm:
      return "neoni8mm";
  }
  return "unknown";
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
  fail("FOLIO_ISA={} is unknown or not supported by this machine and build; supported: {}", printable(forced), names);
}

}  // namespace folio::core
