// Rung 4: one attention head. Three learned matrices map each vector to a query (what the position looks for), a key
// (how other positions find it) and a value (what it passes on).
// Shapes: B windows, T positions, V characters, D elements in a vector, K = D elements in a query, key or value.
#pragma once

#include "experiments/growing/03_averaging.h"

namespace folio::growing {

struct Head : torch::nn::Module {
  Tensor wq_KD, wk_KD, wv_KD;
  Tensor weights_BTT;  // attention weights of the last forward pass, for pictures

  Head(int64_t D, int64_t K) {
    wq_KD = register_parameter("wq", random_matrix(K, D));
    wk_KD = register_parameter("wk", random_matrix(K, D));
    wv_KD = register_parameter("wv", random_matrix(K, D));
  }

  Tensor forward(const Tensor& x_BTD) {
    const Tensor q_BTK = torch::linear(x_BTD, wq_KD);
    const Tensor k_BTK = torch::linear(x_BTD, wk_KD);
    const Tensor v_BTK = torch::linear(x_BTD, wv_KD);
    weights_BTT = attention_weights(q_BTK, k_BTK);  // softmax(q kᵀ / √K, causal)
    return weights_BTT.matmul(v_BTK);               // [B, T, K]
  }
};

struct OneHead : EmbeddingModel {
  std::shared_ptr<Head> head;

  OneHead(int64_t V, int64_t D) : EmbeddingModel(V, D) { head = register_module("head", std::make_shared<Head>(D, D)); }

  Tensor body(const Tensor& x_BTD) override { return head->forward(x_BTD); }
};

}  // namespace folio::growing
