// Rung 6: a residual connection. The output of attention is added to a position's vector instead of replacing it, so
// the character itself and its context both reach the output.
// Shapes: B windows, T positions, V characters, D elements in a vector.
#pragma once

#include "experiments/growing/05_heads.h"

namespace folio::growing {

struct Residual : SeveralHeads {
  using SeveralHeads::SeveralHeads;
  Tensor body(const Tensor& x_BTD) override { return x_BTD + heads->forward(x_BTD); }
};

}  // namespace folio::growing
