// The instruction set for the kernels of the engine and the trainer: the best that this machine supports, or the one
// that the environment variable FOLIO_ISA forces.
#pragma once

#include <string_view>
#include <vector>

namespace folio::core {

enum class Isa { Reference, Avx2, Avx512, Avx512Vnni, Avx512Bf16, Amx, Neon, NeonI8mm };

[[nodiscard]] std::string_view isa_name(Isa isa);

/// Returns the instruction sets that this machine and this build (FOLIO_KERNELS) support, from Reference to the best.
/// Each one includes those before it. The trainer uses its avx512 loops for avx512vnni, and its avx512bf16 loops for
/// amx. Amx multiplies bytes and BF16, and needs the operating system's permission. Neon means Armv8.2 with dot
/// products of bytes. Each architecture has a file: isa_x86.cpp, isa_arm.cpp, isa_other.cpp.
[[nodiscard]] std::vector<Isa> supported_isas();

/// Returns the best set, or the one that FOLIO_ISA forces (reference, avx2, avx512, avx512vnni, avx512bf16, amx, neon,
/// neoni8mm). Throws Error if its value is unknown or not supported by machine and build.
[[nodiscard]] Isa select_isa();

/// Returns true if the hardware prefetcher keeps up with one stream of reads, so that prefetch instructions would only
/// slow it down: on AMD CPUs with AVX-512, since Zen 4.
[[nodiscard]] bool prefetches_streams();

}  // namespace folio::core
