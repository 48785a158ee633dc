#include "infer/reference/reference.h"

namespace folio::infer::kernels {

const Kernels& reference_kernels() {
  static const Kernels table{.isa = core::Isa::Reference,
                             .rms_norm = reference::rms_norm,
                             .matmul = reference::matmul,
                             .matmul_f16 = reference::matmul_f16,
                             .matmul_bf16 = reference::matmul_bf16,
                             .packed_inputs = 0,
                             .pack = nullptr,
                             .matmul_packed = nullptr,
                             .matmul_packed_f16 = nullptr,
                             .matmul_packed_bf16 = nullptr,
                             .matmul_q8 = reference::matmul_q8,
                             .matmul_near = reference::matmul,
                             .matmul_near_bf16 = reference::matmul_bf16,
                             .matmul_near_q8 = reference::matmul_q8,
                             .quantize = reference::quantize,
                             .matmul_groups = reference::matmul_groups,
                             .to_fast = reference::to_fast,
                             .matmul_fast = reference::matmul_fast,
                             .fast_rows = kLanes,
                             .rope = reference::rope,
                             .attention = reference::attention,
                             .attention_f16 = reference::attention_f16,
                             .attention_q8 = reference::attention_q8,
                             .attention_bf16 = reference::attention_bf16,
                             .to_f16 = reference::to_f16,
                             .to_q8 = reference::to_q8,
                             .swiglu = reference::swiglu,
                             .geglu = reference::geglu,
                             .clamped_swiglu = reference::clamped_swiglu,
                             .soft_cap = reference::soft_cap,
                             .add_low_rank = reference::add_low_rank,
                             .add_low_rank_bf16 = reference::add_low_rank_bf16,
                             .add_low_rank_q8 = reference::add_low_rank_q8};
  return table;
}

}  // namespace folio::infer::kernels
