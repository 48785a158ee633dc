// The instruction set of the engine's and the trainer's kernels: the best that this machine has, or the one that
// FOLIO_ISA names.
#pragma once

#include <string_view>
#include <vector>

namespace folio::core {

enum class Isa { Reference, Avx2, Avx512, Avx512Vnni, Avx512Bf16, Amx, Neon, NeonI8mm };

[[nodiscard]] std::string_view isa_name(Isa isa);

/// The sets that this machine can run and this build has kernels for (FOLIO_KERNELS), the best last. Reference is
/// always among them. A set has those before it within; the trainer's loops of avx512vnni are those of avx512, of amx
/// those of avx512bf16. Amx has products of bytes and of BF16, and is there only where the kernel of the operating
/// system lets this process use it. Neon means Armv8.2 with dot products of bytes. In a file for each kind of
/// processor: isa_x86.cpp, isa_arm.cpp, isa_other.cpp.
[[nodiscard]] std::vector<Isa> supported_isas();

/// The best, unless the environment's FOLIO_ISA (reference, avx2, avx512, avx512vnni, avx512bf16, amx, neon, neoni8mm)
/// forces one. Throws Error if that is unknown or not supported here.
[[nodiscard]] Isa select_isa();

/// Whether the processor's own prefetcher keeps up with one stream of reads, so that prefetches only disturb it: AMD's
/// with AVX-512, from Zen 4 on.
[[nodiscard]] bool prefetches_streams();

}  // namespace folio::core
