// A copy of the last model of B. Kitano's "Llama from scratch" (notebook of August 2023), with two changes: one matrix
// computes the queries of all eight heads, one the keys and one the values; and the positions that the norm averages
// over are configurable. Shapes: B windows, T positions, D width, H heads, K = D elements in a head, V characters.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "modules/rope.h"

namespace folio::experiments::tutorial {

/// The positions over which a norm averages the squares: the whole window (as in Kitano's notebook), the current
/// and earlier positions, or only the current one.
enum class NormOver { Window, Past, Position };

struct Config {
  int64_t vocab_size = 65;
  int64_t dim = 128;
  int64_t n_heads = 8;  ///< number of heads, each as wide as the model
  int64_t n_layers = 4;
  int64_t window = 16;
  NormOver norm = NormOver::Window;
};

/// Dropout with its own generator, so that runs are independent of each other. In evaluation, Kitano's notebook
/// disables dropout of the heads' output, but not of the attention weights.
struct Dropout {
  double weights = 0.0;  ///< dropout probability of attention weights
  double output = 0.0;   ///< dropout probability of the heads' output
  at::Generator generator{};

  [[nodiscard]] torch::Tensor drop(const torch::Tensor& x, double probability) const;
};

class NormImpl : public torch::nn::Module {
 public:
  explicit NormImpl(const Config& config);
  torch::Tensor forward(const torch::Tensor& x_BTD);

 private:
  NormOver over_;
  torch::Tensor scale_TD_;
};
TORCH_MODULE(Norm);

class AttentionImpl : public torch::nn::Module {
 public:
  AttentionImpl(const Config& config, nn::RopeCache rope, std::shared_ptr<Dropout> dropout);
  torch::Tensor forward(const torch::Tensor& x_BTD);

 private:
  int64_t n_heads_;
  nn::RopeCache rope_;
  std::shared_ptr<Dropout> dropout_;
  torch::nn::Linear wq_, wk_, wv_, wo_;
};
TORCH_MODULE(Attention);

/// A linear layer followed by the SwiGLU of Kitano's notebook: linear(x) · swish(gate(x)) with a learned beta.
class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(int64_t dim);
  torch::Tensor forward(const torch::Tensor& x_BTD);

 private:
  torch::nn::Linear first_, gate_, linear_;
  torch::Tensor beta_;
};
TORCH_MODULE(FeedForward);

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const Config& config, const nn::RopeCache& rope, const std::shared_ptr<Dropout>& dropout);
  torch::Tensor forward(torch::Tensor x_BTD);

 private:
  Norm norm_;
  Attention attention_;
  FeedForward feedforward_;
};
TORCH_MODULE(Block);

class LlamaImpl : public torch::nn::Module {
 public:
  explicit LlamaImpl(const Config& config);

  torch::Tensor forward(const torch::Tensor& tokens_BT);       ///< returns logits [B, T, V]
  torch::Tensor forward_embedded(const torch::Tensor& x_BTD);  ///< returns logits [B, T, V] for given embeddings
  [[nodiscard]] torch::Tensor embed(const torch::Tensor& tokens_BT);

  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] Dropout& dropout() { return *dropout_; }

 private:
  Config config_;
  std::shared_ptr<Dropout> dropout_ = std::make_shared<Dropout>();
  torch::nn::Embedding embeddings_;
  torch::nn::ModuleList blocks_;
  FeedForward ffn_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Llama);

/// Returns a model with LibTorch's default initialization, as in Kitano's notebook. The same seed gives the same
/// weights for every config.norm. Thread-safe.
[[nodiscard]] Llama seeded(const Config& config, uint64_t seed);

}  // namespace folio::experiments::tutorial
