// Matrices that are not trained, and low-rank adapters that are: y = W x + bias + scale · B A dropout(x), where A is
// [rank, in] and B [out, rank]. W may be a file's, mapped and frozen.
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1; dropout as in peft.
#pragma once

#include <memory>
#include <string>

#include "modules/linear.h"
#include "train/lora/frozen.h"

namespace folio::train::lora {

struct LowRank {
  torch::Tensor a, b;  ///< the parameters "lora_a" and "lora_b"; undefined: there is no adapter
  double scale = 0.0;
  double dropout = 0.0;  ///< the probability that a number of the adapter's input is dropped in training
};

class LoraLinearImpl : public nn::LinearImpl {
 public:
  using nn::LinearImpl::LinearImpl;
  /// There is no parameter `weight`, and a bias, 0, has no gradient.
  explicit LoraLinearImpl(std::shared_ptr<const FrozenMatrix> matrix, bool bias = false);

  torch::Tensor forward(const torch::Tensor& x) override;

  /// Adds an adapter that does nothing yet: as in peft, A is uniform in ±1/√in, and B is 0.
  void adapt(int64_t rank, double scale, double dropout);

  /// Null: the weight is a parameter.
  [[nodiscard]] const std::shared_ptr<const FrozenMatrix>& frozen() const { return frozen_; }
  [[nodiscard]] const LowRank& low_rank() const { return low_rank_; }

 private:
  std::shared_ptr<const FrozenMatrix> frozen_;
  LowRank low_rank_;
};

/// Linear layers that may have adapters, with weights of their own or the matrices of a file.
class LoraLinears : public nn::Linears {
 public:
  explicit LoraLinears(std::shared_ptr<const FrozenWeights> weights = nullptr) : weights_(std::move(weights)) {}

  /// Throws core::Error if the file's matrix has another shape.
  [[nodiscard]] nn::Linear make(const std::string& name, int64_t in, int64_t out, bool bias = false) const override;
  [[nodiscard]] nn::Embedding embedding(const std::string& name, int64_t vocab_size, int64_t dim) const override;

 private:
  std::shared_ptr<const FrozenWeights> weights_;
};

}  // namespace folio::train::lora
