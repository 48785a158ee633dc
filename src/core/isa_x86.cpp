#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/isa.h"

namespace folio::core {
namespace {

// Reads CPUID, because clang 16's __builtin_cpu_supports does not support "f16c".
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// Returns true if this process may use AMX. Linux enables the tile registers for a process only on request; in a
// virtual machine the request may fail even though CPUID lists the instructions.
bool has_amx() {
  constexpr unsigned kBf16 = 1U << 22U;
  constexpr unsigned kTile = 1U << 24U;
  constexpr unsigned kInt8 = 1U << 25U;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (~d & (kBf16 | kTile | kInt8)) != 0) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

std::vector<Isa> find_isas() {
  std::vector<Isa> isas{Isa::Reference};
  if (FOLIO_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
    isas.push_back(Isa::Avx2);
  if (FOLIO_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    isas.push_back(Isa::Avx512);
    if (__builtin_cpu_supports("avx512vnni")) {
      isas.push_back(Isa::Avx512Vnni);
      if (__builtin_cpu_supports("avx512bf16")) {
        isas.push_back(Isa::Avx512Bf16);
        if (has_amx()) isas.push_back(Isa::Amx);
      }
    }
  }
  return isas;
}

}  // namespace

std::vector<Isa> supported_isas() {
  static const std::vector<Isa> isas = find_isas();  // cached, since CPUID is slow in virtual machines
  return isas;
}

bool prefetches_streams() {
  static const bool does = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f");
  return does;
}

}  // namespace folio::core
