// Rung 5: several heads. Queries, keys and values are split into H groups of K = D / H elements; each group computes
// its own attention weights, and an output matrix combines the heads.
// Shapes: B windows, T positions, V characters, D elements in a vector, H heads of K elements.
#pragma once

#include "experiments/growing/04_one_head.h"

namespace folio::growing {

struct Heads : torch::nn::Module {
  int64_t H;
  Tensor wq_DD, wk_DD, wv_DD, wo_DD;
  Tensor weights_BHTT;  // attention weights of the last forward pass, for pictures

  Heads(int64_t D, int64_t n_heads) : H(n_heads) {
    wq_DD = register_parameter("wq", random_matrix(D, D));
    wk_DD = register_parameter("wk", random_matrix(D, D));
    wv_DD = register_parameter("wv", random_matrix(D, D));
    wo_DD = register_parameter("wo", random_matrix(D, D));
  }

  [[nodiscard]] Tensor split(const Tensor& x_BTD) const {
    return x_BTD.unflatten(-1, {H, -1}).transpose(1, 2);  // [B, T, D] to [B, T, H, K] to [B, H, T, K]
  }

  virtual Tensor forward(const Tensor& x_BTD) {
    const Tensor q_BHTK = split(torch::linear(x_BTD, wq_DD));
    const Tensor k_BHTK = split(torch::linear(x_BTD, wk_DD));
    const Tensor v_BHTK = split(torch::linear(x_BTD, wv_DD));
    weights_BHTT = attention_weights(q_BHTK, k_BHTK);
    return join(weights_BHTT.matmul(v_BHTK));
  }

  [[nodiscard]] Tensor join(const Tensor& y_BHTK) const {
    return torch::linear(y_BHTK.transpose(1, 2).flatten(2), wo_DD);  // [B, T, H, K] to [B, T, D], then wo
  }
};

struct SeveralHeads : EmbeddingModel {
  std::shared_ptr<Heads> heads;

  SeveralHeads(int64_t V, int64_t D, int64_t H) : EmbeddingModel(V, D) {
    heads = register_module("heads", std::make_shared<Heads>(D, H));
  }

  Tensor body(const Tensor& x_BTD) override { return heads->forward(x_BTD); }
};

}  // namespace folio::growing
