#include "core/isa.h"

#include <array>
#include <cstdlib>
#include <string>

#include "core/error.h"

namespace folio::core {

std::string_view isa_name(Isa isa) {
  constexpr std::array<std::string_view, 8> kNames{"reference",  "avx2", "avx512", "avx512vnni",
                                                   "avx512bf16", "amx",  "neon",   "neoni8mm"};
  return kNames.at(static_cast<size_t>(isa));
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
