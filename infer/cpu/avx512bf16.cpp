// AVX-512 BF16 kernels for --fast: to_fast, matmul_fast and attention_bf16. All others are those of avx512vnni.cpp.
// Later headers use the types of earlier ones, so the include order is fixed:
// clang-format off
#include "infer/cpu/vec_avx512.h"
#include "infer/cpu/attention_bf16.h"
#include "infer/cpu/fast_bf16.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx512bf16_kernels() {
  static const Kernels table = [] {
    Kernels k = avx512vnni_kernels();
    k.isa = core::Isa::Avx512Bf16;
    k.to_fast = to_fast;
    k.matmul_fast = matmul_fast;
    k.fast_rows = 2 * kLanes;
    k.attention_bf16 = attention<BF16Pair>;
    return k;
  }();
  return table;
}

}  // namespace folio::infer::kernels
