#include "modules/fused/loop_tables.h"
#include "modules/fused/loops_body.h"

namespace folio::nn::fused {

LoopTables avx2_loops() { return {table<BFloat16>(), table<float>(), table<double>()}; }

}  // namespace folio::nn::fused
