// The experts of a mixture as one autograd function with a hand-written backward pass. A row and one of its experts are
// a slot; slots are sorted by expert, so that each expert has one product, of the rows that chose it. With X the rows
// of an expert's slots, g their weights, and each row n's output the sum of its slots:
//   G = X W1ᵀ,  U = X W3ᵀ,  H = g silu(G) ⊙ U,  Y = H W2ᵀ,  y_n = Σ Y_s.
// Backward, with dY_s = dy_n and dH = dY W2:
//   dW2 = dYᵀ H,  dg = Σ dH ⊙ silu(G) ⊙ U,  dG and dU from g dH as swiglu_body.h has them,
//   dW1 = dGᵀ X,  dW3 = dUᵀ X,  dX = dG W1 + dU W3,  dx_n = Σ dX_s.
#pragma once

#include "modules/families/experts.h"

namespace folio::train::fused {

/// Of a model's experts where they have a form here: gates are silu, there are no biases, and x is a float or double on
/// the CPU. Empty where the configuration has others. Products are in autocast's type where that is on.
[[nodiscard]] nn::ExpertProducts expert_products(const core::ModelConfig& config);

}  // namespace folio::train::fused
