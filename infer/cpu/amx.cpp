// AMX kernels: matmul_groups with its quantize, and matmul_fast. All other kernels are those of avx512bf16.cpp.
// Later headers use the types of earlier ones, so the include order is fixed:
// clang-format off
#include "infer/cpu/ints_avx512.h"
#include "infer/cpu/groups_amx.h"
#include "infer/cpu/fast_amx.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& amx_kernels() {
  static const Kernels table = [] {
    Kernels k = avx512bf16_kernels();
    k.isa = core::Isa::Amx;
    k.quantize = quantize_amx;
    k.matmul_groups = matmul_groups_amx;
    k.matmul_fast = matmul_fast_amx;
    k.fast_rows = 4 * kLanes;
    k.attention_bf16 = nullptr;  // vdpbf16ps is not faster than F32 products on these processors
    return k;
  }();
  return table;
}

}  // namespace folio::infer::kernels
