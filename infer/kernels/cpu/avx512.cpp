// The kernels for AVX-512. Only this file is compiled with its instructions.
// The kernels need the Vec before them:
// clang-format off
#include "infer/kernels/cpu/vec_avx512.h"
#include "infer/kernels/cpu/kernels_body.h"
// clang-format on

namespace folio::infer::kernels {

const Kernels& avx512_kernels() {
  static const Kernels table{.isa = core::Isa::Avx512,
                             .rms_norm = rms_norm,
                             .matmul = matmul,
                             .rope = rope,
                             .attention = attention,
                             .swiglu = swiglu};
  return table;
}

}  // namespace folio::infer::kernels
