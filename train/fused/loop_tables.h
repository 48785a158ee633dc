// The tables of the instruction sets.
#pragma once

#include "core/isa.h"
#include "train/fused/loops.h"

namespace folio::train::fused {

struct LoopTables {
  const Loops<BFloat16>& in_bf16;
  const Loops<float>& in_f32;
  const Loops<double>& in_f64;
};
LoopTables plain_loops();
LoopTables avx2_loops();
LoopTables avx512_loops();
LoopTables avx512bf16_loops();

/// Those of one instruction set, which this machine has to have.
LoopTables loops_for(core::Isa isa);

}  // namespace folio::train::fused
