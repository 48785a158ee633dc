#include "infer/kernels/reference/reference.h"

namespace folio::infer::kernels {

const Kernels& reference_kernels() {
  static const Kernels table{.isa = core::Isa::Reference,
                             .rms_norm = reference::rms_norm,
                             .matmul = reference::matmul,
                             .rope = reference::rope,
                             .attention = reference::attention,
                             .swiglu = reference::swiglu};
  return table;
}

}  // namespace folio::infer::kernels
