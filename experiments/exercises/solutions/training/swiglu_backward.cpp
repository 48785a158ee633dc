#include "experiments/exercises/training/training.h"

namespace folio::exercises {

SwigluGradients swiglu_backward(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3,
                                const Tensor& dy) {
  const Tensor z = x.matmul(w1.t()), u = x.matmul(w3.t()), sigma = torch::sigmoid(z), silu = z * sigma;
  const Tensor dh = dy.matmul(w2), du = dh * silu, dz = dh * u * sigma * (1 + z * (1 - sigma));
  return {dz.matmul(w1) + du.matmul(w3), dz.t().matmul(x), dy.t().matmul(silu * u), du.t().matmul(x)};
}

}  // namespace folio::exercises
