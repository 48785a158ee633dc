#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor SwiGLUImpl::forward(const Tensor& x_BTD) {
  const Tensor gate = w1->forward(x_BTD);
  return w2->forward(gate * torch::sigmoid(gate) * w3->forward(x_BTD));
}

}  // namespace folio::exercises
