// The kernels for AVX2. Only this file is compiled with its instructions.
// The kernels need the Vec before them:
// clang-format off
#include "infer/cpu/vec_avx2.h"
#include "infer/cpu/ints_avx2.h"
#include "infer/cpu/groups_body.h"
#include "infer/cpu/kernels_body.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx2_kernels() {
  static const Kernels table{.isa = core::Isa::Avx2,
                             .rms_norm = rms_norm,
                             .matmul = matmul<float>,
                             .matmul_f16 = matmul<F16>,
                             .matmul_bf16 = matmul<BF16>,
                             .quantize = quantize,
                             .matmul_groups = matmul_groups,
                             .rope = rope,
                             .attention = attention<float>,
                             .attention_f16 = attention<F16>,
                             .to_f16 = to_f16,
                             .swiglu = swiglu};
  return table;
}

}  // namespace folio::infer::kernels
