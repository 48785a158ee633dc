// Rung 8: positions. Without them attention ignores the order of characters. RoPE rotates each query and key by angles
// proportional to its position, so that their dot product depends on the distance between the two positions.
// Shapes: B windows, H heads, T positions, K elements in a head, P = K / 2 pairs.
#pragma once

#include "experiments/growing/07_norm.h"

namespace folio::growing {

// Rotates pair i, the elements (2i, 2i + 1), of position t by the angle t · 10000^(-2i/K): the first pair by one radian
// per position, later pairs more slowly.
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
    const Tensor v_BHTK = split(torch::linear(x_BTD, wv_DD));  // values are not rotated
    weights_BHTT = attention_weights(q_BHTK, k_BHTK);
    return join(weights_BHTT.matmul(v_BHTK));
  }
};

}  // namespace folio::growing
