#include "train/fused/loops.h"

#include <algorithm>
#include <cmath>

namespace folio::train::fused {

// Defined in loop_table.cpp, which is compiled once per instruction set.
const LoopTables& plain_loops();
const LoopTables& avx2_loops();
const LoopTables& avx512_loops();
const LoopTables& avx512bf16_loops();

const LoopTables& loops_for(core::Isa isa) {
  switch (isa) {
#if defined(__x86_64__) && FOLIO_AVX512
    case core::Isa::Amx:
    case core::Isa::Avx512Bf16:
      return avx512bf16_loops();
    case core::Isa::Avx512Vnni:
    case core::Isa::Avx512:
      return avx512_loops();
#endif
#if defined(__x86_64__) && FOLIO_AVX2
    case core::Isa::Avx2:
      return avx2_loops();
#endif
    default:
      return plain_loops();
  }
}

constexpr long kHashes = 1L << 32;  // number of hash values; a dropout threshold must be below it

Dropout make_dropout(double probability, uint64_t key, uint64_t site) {
  return {.key = key ^ (site * 0xD1342543DE82EF95ULL),
          .threshold = static_cast<uint32_t>(std::min(std::lround(probability * kHashes), kHashes - 1)),
          .scale = 1.0 / (1.0 - probability)};
}

}  // namespace folio::train::fused
