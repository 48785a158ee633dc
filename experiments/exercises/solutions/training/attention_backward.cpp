#include <cmath>

#include "experiments/exercises/training/training.h"

namespace folio::exercises {

HeadGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  const int64_t T = q.size(0);
  const double scale = 1.0 / std::sqrt(q.size(1));
  const Tensor later = torch::ones({T, T}, torch::kBool).triu(1);
  const Tensor p = (q.matmul(k.t()) * scale).masked_fill(later, -INFINITY).softmax(-1);
  const Tensor dp = dy.matmul(v.t());
  const Tensor ds = p * (dp - (dp * p).sum(-1, /*keepdim=*/true));
  return {ds.matmul(k) * scale, ds.t().matmul(q) * scale, p.t().matmul(dy)};
}

}  // namespace folio::exercises
