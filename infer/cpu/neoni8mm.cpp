// NEON i8mm kernels: quantize and matmul_groups, which multiplies unsigned by signed bytes with usdot. All others are
// those of neon.cpp. Later headers use the types of earlier ones, so the include order is fixed.
// clang-format off
#include "infer/cpu/ints_neon.h"
#include "infer/cpu/groups_body.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& neoni8mm_kernels() {
  static const Kernels table = [] {
    Kernels k = neon_kernels();
    k.isa = core::Isa::NeonI8mm;
    k.quantize = quantize;
    k.matmul_groups = matmul_groups;
    return k;
  }();
  return table;
}

}  // namespace folio::infer::kernels
