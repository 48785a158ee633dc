// The instruction set for the kernels of the engine and the trainer: the best that this machine supports, or the one
// that the environment variable FOLIO_ISA forces.
#pragma once

#include <string_view>
#include <vector>

namespace folio::core {

enum class Isa { Reference, Avx2, Avx512, Avx512Vnni, Avx512Bf16, Amx, Neon, NeonI8mm };

[[nodiscard]] std::string_view isa_name(Isa isa);

/// Returns the instruction sets that this machine and this build (FOLIO_KERNELS) support, from Reference to the best.
/// Each set includes those before it. Amx requires AMX-INT8, AMX-BF16 and the operating system's permission; Neon
/// requires Armv8.2 with dot products of bytes. The trainer has no kernels for Avx512Vnni and Amx, and uses its kernels
/// for Avx512 and Avx512Bf16 instead.
[[nodiscard]] std::vector<Isa> supported_isas();

/// Returns the best set, or the one that FOLIO_ISA forces (reference, avx2, avx512, avx512vnni, avx512bf16, amx, neon,
/// neoni8mm). Throws Error if FOLIO_ISA is unknown, or if this machine or build does not support it.
[[nodiscard]] Isa select_isa();

/// Returns true on AMD CPUs with AVX-512 (Zen 4 and later): their hardware prefetcher keeps up with one stream of
/// reads, so that prefetch instructions would only slow the reads down.
[[nodiscard]] bool prefetches_streams();

}  // namespace folio::core
