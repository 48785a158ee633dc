// Rung 10: depth. L blocks in sequence; each builds on the results of the previous ones.
// Shapes: B windows, T positions, V characters, D elements in a vector, H heads, F hidden elements of a feed-forward.
#pragma once

#include "experiments/growing/09_swiglu.h"

namespace folio::growing {

struct Deep : EmbeddingModel {
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<Norm> before_output;

  Deep(int64_t V, int64_t D, int64_t H, int64_t F, int64_t L) : EmbeddingModel(V, D) {
    for (int64_t layer = 0; layer < L; ++layer) {
      blocks.push_back(register_module("block" + std::to_string(layer), std::make_shared<Block>(D, H, F)));
    }
    before_output = register_module("before_output", std::make_shared<Norm>(D));
  }

  Tensor body(const Tensor& embedded_BTD) override {
    Tensor x_BTD = embedded_BTD;
    for (const auto& block : blocks) x_BTD = block->forward(x_BTD);
    return before_output->forward(x_BTD);
  }
};

}  // namespace folio::growing
