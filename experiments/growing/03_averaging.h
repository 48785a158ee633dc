// Rung 3: more context than one character, by averaging the vectors of all characters so far. Four equivalent forms of
// the average, the last of which is attention, and a model that uses the average.
// Shapes: B windows, T positions, V characters, D elements in a character's vector.
#pragma once

#include <cmath>
#include <limits>

#include "experiments/growing/02_bigram.h"

namespace folio::growing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Computes the averages with loops: y[t] is the mean of x[0], ..., x[t].
inline Tensor average_by_loop(const Tensor& x_TD) {
  Tensor y_TD = torch::zeros_like(x_TD);
  for (int64_t t = 0; t < x_TD.size(0); ++t) {
    for (int64_t s = 0; s <= t; ++s) y_TD[t] += x_TD[s];
    y_TD[t] /= static_cast<double>(t + 1);
  }
  return y_TD;
}

// Returns the matrix whose product with x is the averages: row t has 1/(t + 1) in columns 0 to t, else 0.
inline Tensor average_weights(int64_t T) {
  const Tensor ones_TT = torch::ones({T, T}).tril();
  return ones_TT / ones_TT.sum(1, /*keepdim=*/true);
}
inline Tensor average_by_matrix(const Tensor& x_TD) { return average_weights(x_TD.size(0)).matmul(x_TD); }

// Computes the weights of an average as a softmax of scores: equal scores get equal weights, and a score of -infinity
// gets a weight of 0. Setting the scores of later positions to -infinity is the causal mask.
inline Tensor causal_softmax(const Tensor& scores_TT) {  // [..., T, T]
  const int64_t T = scores_TT.size(-1);
  const Tensor later_TT = torch::ones({T, T}).triu(1) == 1;
  return scores_TT.masked_fill(later_TT, -kInfinity).softmax(-1);
}
inline Tensor average_by_softmax(const Tensor& x_TD) {
  const int64_t T = x_TD.size(0);
  return causal_softmax(torch::zeros({T, T})).matmul(x_TD);
}

// Computes attention weights: the score of position s for position t is q[t] · k[s] / √K, so the weights depend on
// content. attend() averages the values v with them. Queries of 0 make all scores 0, which gives the plain average.
inline Tensor attention_weights(const Tensor& q_TK, const Tensor& k_TK) {  // [..., T, K] to [..., T, T]
  return causal_softmax(q_TK.matmul(k_TK.transpose(-2, -1)) / std::sqrt(q_TK.size(-1)));
}
inline Tensor attend(const Tensor& q_TK, const Tensor& k_TK, const Tensor& v_TK) {  // [..., T, K]
  return attention_weights(q_TK, k_TK).matmul(v_TK);
}

// Returns a random matrix. The standard deviation 1/√in makes outputs about as large as inputs.
inline Tensor random_matrix(int64_t out, int64_t in) { return torch::randn({out, in}) / std::sqrt(in); }

// The common part of rungs 3 to 11: the embedding maps a character to a vector of D elements, the body computes a
// vector [B, T, D] for each position, and the output matrix maps it to logits. The output matrix starts at zero, so
// that all characters are equally likely at first.
struct EmbeddingModel : Model {
  Tensor embedding_VD, output_VD;

  EmbeddingModel(int64_t V, int64_t D) {
    embedding_VD = register_parameter("embedding", torch::randn({V, D}));
    output_VD = register_parameter("output", torch::zeros({V, D}));
  }

  virtual Tensor body(const Tensor& x_BTD) = 0;

  Tensor forward(const Tensor& tokens_BT) override {
    return torch::linear(body(torch::embedding(embedding_VD, tokens_BT)), output_VD);  // [B, T, V]
  }
};

// The model of rung 3: predicts from the mean of the vectors of all characters so far.
struct Averaging : EmbeddingModel {
  using EmbeddingModel::EmbeddingModel;
  Tensor body(const Tensor& x_BTD) override { return average_weights(x_BTD.size(1)).matmul(x_BTD); }
};

}  // namespace folio::growing
