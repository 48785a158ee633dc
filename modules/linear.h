// A linear layer as LibTorch has it, whose weight may be frozen, and to which a low-rank adapter may be added.
#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>

#include "modules/frozen.h"

namespace folio::nn {

/// y = W x + bias, and with an adapter + scale · B A dropout(x), where A is [rank, in] and B [out, rank].
/// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1; dropout as in peft.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  LinearImpl(int64_t in, int64_t out, bool bias = false);

  /// x [..., in] to [..., out].
  torch::Tensor forward(const torch::Tensor& x);

  /// From now on the weight is this matrix, and the parameter `weight` is gone; a bias gets no gradient.
  /// Throws core::Error if its shape is another.
  void freeze(std::shared_ptr<const FrozenMatrix> matrix);
  /// Null: the weight is trained.
  [[nodiscard]] const std::shared_ptr<const FrozenMatrix>& frozen() const { return frozen_; }

  struct LowRank {
    torch::Tensor a, b;  ///< the parameters "lora_a" and "lora_b"; undefined: there is no adapter
    double scale = 0.0;
    double dropout = 0.0;  ///< the probability that a number of the adapter's input is dropped in training
  };
  /// Adds an adapter that does nothing yet: as in peft, A is uniform in ±1/√in, and B is 0.
  void adapt(int64_t rank, double scale, double dropout);
  [[nodiscard]] const LowRank& low_rank() const { return low_rank_; }

 private:
  std::shared_ptr<const FrozenMatrix> frozen_;
  LowRank low_rank_;
};
TORCH_MODULE(Linear);

/// Freezes all that a module has: linear layers as Linear::freeze(), norms as copies without a gradient. `prefix` is in
/// front of its parameters' names in `weights`.
void freeze(torch::nn::Module& module, const std::string& prefix, const FrozenWeights& weights);

}  // namespace folio::nn
