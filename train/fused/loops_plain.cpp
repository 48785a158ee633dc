#include "train/fused/loop_tables.h"
#include "train/fused/loops_body.h"

namespace folio::train::fused {

LoopTables plain_loops() { return {table<BFloat16>(), table<float>(), table<double>()}; }

}  // namespace folio::train::fused
