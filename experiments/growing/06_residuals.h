// Rung 6: a residual connection. Attention no longer replaces a position's vector; it is added to it. What the
// character is and what was found in the past then reach the output together.
// Shapes: B windows, T positions, V characters, D numbers in a vector.
#pragma once

#include "experiments/growing/05_heads.h"

namespace folio::growing {

struct Residual : SeveralHeads {
  using SeveralHeads::SeveralHeads;
  Tensor body(const Tensor& x_BTD) override { return x_BTD + heads->forward(x_BTD); }
};

}  // namespace folio::growing
