#include <cmath>

#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor AttentionImpl::weights(const Tensor& x_BTD) {
  const int64_t T = x_BTD.size(1);
  const Tensor q_BHTK = rotate(wq->forward(x_BTD).unflatten(-1, {n_heads, head_dim})).transpose(1, 2);
  const Tensor k_BGTK = rotate(wk->forward(x_BTD).unflatten(-1, {n_kv_heads, head_dim})).transpose(1, 2);
  const Tensor k_BHTK = k_BGTK.repeat_interleave(n_heads / n_kv_heads, 1);
  const Tensor scores_BHTT = q_BHTK.matmul(k_BHTK.transpose(-2, -1)) / std::sqrt(head_dim);
  const Tensor later_TT = torch::ones({T, T}, torch::kBool).triu(1);
  return scores_BHTT.masked_fill(later_TT, -INFINITY).softmax(-1);
}

Tensor AttentionImpl::forward(const Tensor& x_BTD) {
  const Tensor v_BGTK = wv->forward(x_BTD).unflatten(-1, {n_kv_heads, head_dim}).transpose(1, 2);
  const Tensor y_BHTK = weights(x_BTD).matmul(v_BGTK.repeat_interleave(n_heads / n_kv_heads, 1));
  return wo->forward(y_BHTK.transpose(1, 2).flatten(2));
}

}  // namespace folio::exercises
