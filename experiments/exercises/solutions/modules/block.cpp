#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor BlockImpl::layer(const Tensor& x_BTD) {
  const Tensor h_BTD = x_BTD + parts_.attention.forward(parts_.attention_norm.forward(x_BTD));
  return h_BTD + parts_.ffn.forward(parts_.ffn_norm.forward(h_BTD));
}

}  // namespace folio::exercises
