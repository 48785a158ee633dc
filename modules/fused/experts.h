// The experts of a mixture as one autograd function with a hand-written backward pass. A row and one of its experts are
// a slot; slots are sorted by expert, so that each expert has one product, of the rows that chose it. With X the rows
// of an expert's slots, g their weights, and each row n's output the sum of its slots:
//   G = X W1ᵀ,  U = X W3ᵀ,  H = g silu(G) ⊙ U,  Y = H W2ᵀ,  y_n = Σ Y_s.
// Backward, with dY_s = dy_n and dH = dY W2:
//   dW2 = dYᵀ H,  dg = Σ dH ⊙ silu(G) ⊙ U,  dG and dU from g dH as swiglu_body.h has them,
//   dW1 = dGᵀ X,  dW3 = dUᵀ X,  dX = dG W1 + dU W3,  dx_n = Σ dX_s.
#pragma once

#include <torch/types.h>

#include "modules/fused/operand.h"

namespace folio::nn::fused {

/// The stacks in the type of the products, made once for each value of the weights.
struct ExpertOperands {
  Operand w1, w3, w2;
};

/// Σ over each row's experts, [N, D] of the type of x: a float or double on the CPU. `chosen` [N, K], int64, are the
/// experts of a row, and `weights` [N, K] theirs. w1 and w3 [E, F, D], w2 [E, D, F].
/// Products are in autocast's type where that is on.
torch::Tensor experts(const torch::Tensor& x_ND, const torch::Tensor& chosen, const torch::Tensor& weights,
                      const torch::Tensor& w1, const torch::Tensor& w3, const torch::Tensor& w2,
                      ExpertOperands& operands);

}  // namespace folio::nn::fused
