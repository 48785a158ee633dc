#include "modules/fused/loops.h"

#include <cmath>

#include "core/isa.h"
#include "modules/fused/loop_tables.h"

namespace folio::nn::fused {
namespace {

LoopTables select() {
  switch (core::select_isa()) {
#if defined(__x86_64__)
    case core::Isa::Avx512Vnni:
      if (__builtin_cpu_supports("avx512bf16")) return avx512bf16_loops();
      [[fallthrough]];
    case core::Isa::Avx512:
      return avx512_loops();
    case core::Isa::Avx2:
      return avx2_loops();
#endif
    default:
      return plain_loops();
  }
}

const LoopTables& selected() {
  static const LoopTables kTables = select();
  return kTables;
}

}  // namespace

template <>
const Loops<BFloat16>& loops() {
  return selected().in_bf16;
}
template <>
const Loops<float>& loops() {
  return selected().in_f32;
}
template <>
const Loops<double>& loops() {
  return selected().in_f64;
}

Dropout make_dropout(double probability, uint64_t key, uint64_t site) {
  return {.key = key ^ (site * 0xD1342543DE82EF95ULL),
          .threshold = static_cast<uint32_t>(std::lround(probability * 4294967296.0)),
          .scale = 1.0 / (1.0 - probability)};
}

}  // namespace folio::nn::fused
