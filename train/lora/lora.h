// LoRA: low-rank adapters of linear layers. Only the adapters are trained; the model's weights are frozen.
//
//     y = W x + bias + scale · B A dropout(x)          A [rank, in], B [out, rank]; W may be memory-mapped from a file
//
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1; dropout as in peft.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/adapter.h"
#include "core/manifest.h"
#include "modules/llama.h"
#include "train/lora/frozen.h"

namespace folio::train::lora {

struct LoraWeights {
  torch::Tensor a, b;  ///< the parameters "lora_a" [rank, in] and "lora_b" [out, rank]; undefined without an adapter
  double scale = 0.0;
  double dropout = 0.0;  ///< dropout probability of the adapter's input in training
};

class LoraLinearImpl : public nn::LinearImpl {
 public:
  using nn::LinearImpl::LinearImpl;
  /// Uses a frozen matrix instead of a parameter `weight`. The bias is initialized to 0 and gets no gradient.
  explicit LoraLinearImpl(std::shared_ptr<const FrozenMatrix> matrix, bool bias = false);

  torch::Tensor forward(const torch::Tensor& x) override;

  /// Adds an adapter, initialized as in peft: A uniform in ±1/√in, B 0, so that the output is unchanged.
  void adapt(int64_t rank, double scale, double dropout);

  /// Returns the frozen matrix; null if the weight is a parameter.
  [[nodiscard]] const std::shared_ptr<const FrozenMatrix>& frozen() const { return frozen_; }
  [[nodiscard]] const LoraWeights& low_rank() const { return low_rank_; }

 private:
  std::shared_ptr<const FrozenMatrix> frozen_;
  LoraWeights low_rank_;
};

/// Creates layers that support adapters. Their weights are frozen matrices of `weights`; if that is null, trainable.
class LoraLinears : public nn::Linears {
 public:
  explicit LoraLinears(std::shared_ptr<const core::StoredModel> weights = nullptr);

  [[nodiscard]] nn::Linear make(const std::string& name, int64_t in, int64_t out, bool bias = false) const override;
  [[nodiscard]] nn::Embedding embedding(const std::string& name, int64_t vocab_size, int64_t dim) const override;

 private:
  [[nodiscard]] std::shared_ptr<const FrozenMatrix> frozen(const std::string& name) const;

  std::shared_ptr<const core::StoredModel> weights_;  ///< file with the frozen weights; null: trainable weights
  std::vector<core::TensorSpec> manifest_;
};

/// Parses a list of matrices such as "q,v" or "all", and returns them in the manifest's order. The names are q, k, v,
/// o, gate, up and down (in peft, q_proj and so on). Throws core::UsageError with the valid names for an unknown one.
[[nodiscard]] std::vector<core::Role> lora_targets(std::string_view names);

/// Copies norms and biases from `weights` into a model created with LoraLinears, and freezes them.
void freeze_rest(nn::Llama& model, const core::StoredModel& weights);

/// Adds an adapter to each target matrix of a model created with LoraLinears. Outputs are unchanged until training.
void add_lora(nn::Llama& model, const core::AdapterInfo& info);

/// Returns the name of the module with a tensor's adapter, such as NAME = "layers.0.attention.wq". The adapter's
/// parameters are NAME.lora_a and NAME.lora_b.
[[nodiscard]] std::string lora_module(const core::TensorSpec& spec);

}  // namespace folio::train::lora
