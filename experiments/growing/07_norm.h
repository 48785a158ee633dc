// Rung 7: RMSNorm. Before attention and before the output, each vector is divided by the root of the mean of its
// squared elements and multiplied by a learned gain per element.
// Shapes: B windows, T positions, V characters, D elements in a vector.
#pragma once

#include "experiments/growing/06_residuals.h"

namespace folio::growing {

struct Norm : torch::nn::Module {
  Tensor gain_D;

  explicit Norm(int64_t D) { gain_D = register_parameter("gain", torch::ones(D)); }

  Tensor forward(const Tensor& x_BTD) {
    const Tensor mean_square_BT1 = x_BTD.square().mean(-1, /*keepdim=*/true);  // over the vector, never over positions
    return x_BTD * torch::rsqrt(mean_square_BT1 + 1e-5) * gain_D;
  }
};

struct Normed : EmbeddingModel {
  std::shared_ptr<Norm> before_heads, before_output;
  std::shared_ptr<Heads> heads;

  Normed(int64_t V, int64_t D, std::shared_ptr<Heads> its_heads) : EmbeddingModel(V, D) {
    heads = register_module("heads", std::move(its_heads));
    before_heads = register_module("before_heads", std::make_shared<Norm>(D));
    before_output = register_module("before_output", std::make_shared<Norm>(D));
  }

  Tensor body(const Tensor& x_BTD) override {
    return before_output->forward(x_BTD + heads->forward(before_heads->forward(x_BTD)));
  }
};

}  // namespace folio::growing
