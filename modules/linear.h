// Linear and embedding layers, and Linears, the factory that creates them for a model. Derived classes may store the
// weights elsewhere, for example in a memory-mapped file.
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
  /// Initializes weight and bias as torch.nn.Linear does: uniform in ±1/√in.
  LinearImpl(int64_t in, int64_t out, bool bias = false);
  /// Uses a weight [out, in] that another module registers, such as the embedding's for a tied output head.
  explicit LinearImpl(const torch::Tensor& shared) : weight(shared), in_(shared.size(1)), out_(shared.size(0)) {}

  virtual torch::Tensor forward(const torch::Tensor& x);
  void reset_parameters();  ///< draws new initial values
  [[nodiscard]] int64_t in() const { return in_; }
  [[nodiscard]] int64_t out() const { return out_; }

  torch::Tensor weight;  ///< [out, in]; undefined if a derived class stores it elsewhere
  torch::Tensor bias;    ///< [out], or undefined

 protected:
  struct WithoutWeight {};
  LinearImpl(int64_t in, int64_t out, WithoutWeight) : in_(in), out_(out) {}

 private:
  int64_t in_, out_;
};
TORCH_MODULE(Linear);

/// Token embedding: looks up one row of the weight per token, int64 [B, T] to [B, T, dim]. Initialized from N(0, 1).
class EmbeddingImpl : public torch::nn::Module {
 public:
  EmbeddingImpl(int64_t vocab_size, int64_t dim);

  virtual torch::Tensor forward(const torch::Tensor& tokens) { return torch::embedding(weight, tokens); }
  /// Returns an output head with the same weight, [..., dim] to [..., vocab_size].
  [[nodiscard]] virtual Linear as_head() const { return Linear(weight); }
  void reset_parameters();

  torch::Tensor weight;  ///< [vocab_size, dim]; undefined if a derived class stores it elsewhere

 protected:
  EmbeddingImpl() = default;
};
TORCH_MODULE(Embedding);

/// Creates a model's linear layers and embedding. `name` is the module's name in the model, such as "layers.3.ffn.w1".
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
