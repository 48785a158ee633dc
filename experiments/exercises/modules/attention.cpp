// Causal attention on LibTorch with grouped heads.
//
//     q = rotate(wq x) [B, T, H, K]     k = rotate(wk x), v = wv x [B, T, G, K]
//     weights = softmax over u of (q_t · k_u / sqrt(K)), for u <= t, and 0 for u > t
//     y_t = wo(concatenation over query heads h of Σ_u weights_tu v_u); h reads key/value head h / (H / G)
//
// Members (modules.h): n_heads (H), n_kv_heads (G), head_dim (K), rotate, wq, wk, wv, wo. Useful tensor operations:
// unflatten(-1, {H, K}), transpose(1, 2), repeat_interleave(H / G, 1), matmul, masked_fill, softmax(-1), flatten.
//
// Read first: experiments/06_causal_mask/README.md, experiments/07_heads/README.md.
// Check it with: make exercise N=modules/attention
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

// Returns the attention weights [B, H, T, T]: row t holds the weights of position t on all positions.
Tensor AttentionImpl::weights(const Tensor& x_BTD) {
  throw Unfilled(
      "Attention is still to be written, in experiments/exercises/modules/attention.cpp.\n"
      "Begin with weights(): project, cut into heads, rotate, and bring the heads before the positions: [B, H, T, K].\n"
      "Multiply q by k transposed, divide by sqrt(K), set what lies above the diagonal to -INFINITY, take the "
      "softmax.");
}

Tensor AttentionImpl::forward(const Tensor& x_BTD) {
  throw Unfilled(
      "The weights are there; forward() is still to be written, in experiments/exercises/modules/attention.cpp.\n"
      "Multiply weights(x) by the values, bring the positions before the heads again, flatten, and apply wo.");
}

}  // namespace folio::exercises
