// Rung 9: the feed-forward network, SwiGLU. Attention combines positions; the feed-forward processes each position
// separately. Attention and feed-forward, each with a norm before it and a residual connection, form a block.
// Shapes: B windows, T positions, V characters, D elements in a vector, F hidden elements of the feed-forward.
#pragma once

#include "experiments/growing/08_rope.h"

namespace folio::growing {

struct SwiGLU : torch::nn::Module {
  Tensor w1_FD, w2_DF, w3_FD;

  SwiGLU(int64_t D, int64_t F) {
    w1_FD = register_parameter("w1", random_matrix(F, D));
    w2_DF = register_parameter("w2", random_matrix(D, F));
    w3_FD = register_parameter("w3", random_matrix(F, D));
  }

  Tensor forward(const Tensor& x_BTD) {
    const Tensor z_BTF = torch::linear(x_BTD, w1_FD);
    const Tensor gate_BTF = z_BTF * z_BTF.sigmoid();  // silu(z) = z / (1 + e^-z): near 0 for z < 0, near z for z > 0
    return torch::linear(gate_BTF * torch::linear(x_BTD, w3_FD), w2_DF);
  }
};

struct Block : torch::nn::Module {
  std::shared_ptr<Norm> before_heads, before_ffn;
  std::shared_ptr<RotaryHeads> heads;
  std::shared_ptr<SwiGLU> ffn;

  Block(int64_t D, int64_t H, int64_t F) {
    before_heads = register_module("before_heads", std::make_shared<Norm>(D));
    heads = register_module("heads", std::make_shared<RotaryHeads>(D, H));
    before_ffn = register_module("before_ffn", std::make_shared<Norm>(D));
    ffn = register_module("ffn", std::make_shared<SwiGLU>(D, F));
  }

  Tensor forward(const Tensor& x_BTD) {
    const Tensor h_BTD = x_BTD + heads->forward(before_heads->forward(x_BTD));
    return h_BTD + ffn->forward(before_ffn->forward(h_BTD));
  }
};

struct OneBlock : EmbeddingModel {
  std::shared_ptr<Block> block;
  std::shared_ptr<Norm> before_output;

  OneBlock(int64_t V, int64_t D, int64_t H, int64_t F) : EmbeddingModel(V, D) {
    block = register_module("block", std::make_shared<Block>(D, H, F));
    before_output = register_module("before_output", std::make_shared<Norm>(D));
  }

  Tensor body(const Tensor& x_BTD) override { return before_output->forward(block->forward(x_BTD)); }
};

}  // namespace folio::growing
