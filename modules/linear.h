// Linear and embedding layers with trainable weights, and Linears, which makes them for a model. Other weights, such as
// those of a mapped file, are classes derived from the three.
//
//     y [..., out] = x [..., in] Wᵀ + bias               W [out, in]
//
//     nn::Linear wq = linears.make("layers.0.attention.wq", config.dim, config.query_dim());
//     torch::Tensor q = wq->forward(x);  // [B, T, dim] to [B, T, query_dim]
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>

namespace folio::nn {

class LinearImpl : public torch::nn::Module {
 public:
  /// Initialized as torch.nn.Linear: uniform in ±1/√in.
  LinearImpl(int64_t in, int64_t out, bool bias = false);
  /// Shares another module's parameter: a head tied to the embedding.
  explicit LinearImpl(const torch::Tensor& shared) : weight(shared), in_(shared.size(1)), out_(shared.size(0)) {}

  virtual torch::Tensor forward(const torch::Tensor& x);
  void reset_parameters();  ///< initializes again
  [[nodiscard]] int64_t in() const { return in_; }
  [[nodiscard]] int64_t out() const { return out_; }

  torch::Tensor weight;  ///< undefined where a derived class stores it elsewhere
  torch::Tensor bias;    ///< [out], or undefined

 protected:
  struct WithoutWeight {};
  LinearImpl(int64_t in, int64_t out, WithoutWeight) : in_(in), out_(out) {}

 private:
  int64_t in_, out_;
};
TORCH_MODULE(Linear);

/// Rows of a matrix, one for each token: int64 [B, T] to [B, T, dim]. Initialized from N(0, 1).
class EmbeddingImpl : public torch::nn::Module {
 public:
  EmbeddingImpl(int64_t vocab_size, int64_t dim);

  virtual torch::Tensor forward(const torch::Tensor& tokens) { return torch::embedding(weight, tokens); }
  /// The product with the same matrix, [..., dim] to [..., vocab_size].
  [[nodiscard]] virtual Linear as_head() const { return Linear(weight); }
  void reset_parameters();

  torch::Tensor weight;  ///< [vocab_size, dim]

 protected:
  EmbeddingImpl() = default;
};
TORCH_MODULE(Embedding);

/// Makes a model's linear layers, with trainable weights. `name` is the module's in the model, "layers.3.ffn.w1".
class Linears {
 public:
  virtual ~Linears() = default;
  [[nodiscard]] virtual Linear make(const std::string& /*name*/, int64_t in, int64_t out, bool bias = false) const {
    return Linear(in, out, bias);
  }
  [[nodiscard]] virtual Embedding embedding(const std::string& /*name*/, int64_t vocab_size, int64_t dim) const {
    return Embedding(vocab_size, dim);
  }
};
[[nodiscard]] inline std::shared_ptr<const Linears> dense() { return std::make_shared<const Linears>(); }

}  // namespace folio::nn
