// Rounds floats to F16 for the KV cache.
#pragma once

#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

void to_f16(const float* x, size_t n, F16* out) {
  for_lanes(n, [&](size_t i, size_t count) { Vec::load_first(x + i, count).store_first(out + i, count); });
}

}  // namespace
}  // namespace folio::infer::kernels
