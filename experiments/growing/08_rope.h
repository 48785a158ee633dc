// Rung 8: positions. So far attention saw which characters came before and not where. RoPE turns each query and key by
// angles that grow with its position; the dot product of two turned vectors depends on how far apart they stand.
// Shapes: B windows, H heads, T positions, K numbers in a head, P = K / 2 pairs of them.
#pragma once

#include "experiments/growing/07_norm.h"

namespace folio::growing {

// Position t turns pair i, the numbers (2i, 2i + 1), by the angle t · 10000^(-2i/K): the first pair by one radian from
// one position to the next, later pairs ever more slowly.
inline Tensor rotate(const Tensor& x_BHTK) {
  const int64_t T = x_BHTK.size(2), K = x_BHTK.size(3);
  const Tensor turn_P = torch::pow(10000.0, -torch::arange(0, K, 2, torch::kDouble) / static_cast<double>(K));
  const Tensor angle_TP = torch::outer(torch::arange(T, torch::kDouble), turn_P);
  const Tensor cos_TP = angle_TP.cos().to(x_BHTK.scalar_type()), sin_TP = angle_TP.sin().to(x_BHTK.scalar_type());

  const Tensor pairs = x_BHTK.unflatten(-1, {-1, 2});  // [B, H, T, P, 2]
  const Tensor a_BHTP = pairs.select(-1, 0), b_BHTP = pairs.select(-1, 1);
  return torch::stack({a_BHTP * cos_TP - b_BHTP * sin_TP, a_BHTP * sin_TP + b_BHTP * cos_TP}, -1).flatten(-2);
}

struct RotaryHeads : Heads {
  using Heads::Heads;

  Tensor forward(const Tensor& x_BTD) override {
    const Tensor q_BHTK = rotate(split(torch::linear(x_BTD, wq_DD)));
    const Tensor k_BHTK = rotate(split(torch::linear(x_BTD, wk_DD)));
    const Tensor v_BHTK = split(torch::linear(x_BTD, wv_DD));  // values are not turned
    weights_BHTT = attention_weights(q_BHTK, k_BHTK);
    return join(weights_BHTT.matmul(v_BHTK));
  }
};

}  // namespace folio::growing
