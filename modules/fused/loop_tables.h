// The tables of the instruction sets.
#pragma once

#include "modules/fused/loops.h"

namespace folio::nn::fused {

struct LoopTables {
  const Loops<BFloat16>& in_bf16;
  const Loops<float>& in_f32;
  const Loops<double>& in_f64;
};
LoopTables plain_loops();
LoopTables avx2_loops();
LoopTables avx512_loops();
LoopTables avx512bf16_loops();

}  // namespace folio::nn::fused
