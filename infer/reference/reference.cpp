#include "infer/reference/reference.h"

namespace folio::infer::kernels {

const Kernels& reference_kernels() {
  using namespace reference;
  static const Kernels table{.isa = core::Isa::Reference,
                             .rms_norm = rms_norm,
                             .matmul = {{matmul<float>}, {matmul<F16>}, {matmul<BF16>}, {matmul<Q8>}},
                             .matmul_near = {{matmul<float>}, {matmul<BF16>}, {matmul<Q8>}},
                             .quantize = quantize,
                             .matmul_groups = matmul_groups,
                             .to_fast = to_fast,
                             .matmul_fast = matmul_fast,
                             .rope = rope,
                             .attention = {{attention<float>}, {attention<F16>}, {attention<Q8>}},
                             .attention_bf16 = attention<BF16Pair>,
                             .to_f16 = to_f16,
                             .to_q8 = to_q8,
                             .swiglu = swiglu,
                             .geglu = geglu,
                             .clamped_swiglu = clamped_swiglu,
                             .soft_cap = soft_cap,
                             .add_low_rank = {{add_low_rank<float>}, {add_low_rank<BF16>}, {add_low_rank<Q8>}}};
  return table;
}

}  // namespace folio::infer::kernels
