// Low-rank adapters of linear layers: all that is trained, where the model itself is frozen.
//
//     y = W x + bias + scale · B A dropout(x)               A [rank, in], B [out, rank]; W may be a file's, mapped
//
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1; dropout as in peft.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/manifest.h"
#include "modules/llama.h"
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
  explicit LoraLinearImpl(c10::intrusive_ptr<FrozenMatrix> matrix, bool bias = false);

  torch::Tensor forward(const torch::Tensor& x) override;

  /// Adds an adapter that does nothing yet: as in peft, A is uniform in ±1/√in, and B is 0.
  void adapt(int64_t rank, double scale, double dropout);

  /// Null: the weight is a parameter.
  [[nodiscard]] const c10::intrusive_ptr<FrozenMatrix>& frozen() const { return frozen_; }
  [[nodiscard]] const LowRank& low_rank() const { return low_rank_; }

 private:
  c10::intrusive_ptr<FrozenMatrix> frozen_;
  LowRank low_rank_;
};

/// Linear layers that may have adapters, with weights of their own or the matrices of a file.
class LoraLinears : public nn::Linears {
 public:
  explicit LoraLinears(std::shared_ptr<const core::StoredModel> weights = nullptr);

  [[nodiscard]] nn::Linear make(const std::string& name, int64_t in, int64_t out, bool bias = false) const override;
  [[nodiscard]] nn::Embedding embedding(const std::string& name, int64_t vocab_size, int64_t dim) const override;

 private:
  [[nodiscard]] c10::intrusive_ptr<FrozenMatrix> frozen(const std::string& name) const;

  std::shared_ptr<const core::StoredModel> weights_;  ///< null: the layers have weights of their own
  std::vector<core::TensorSpec> manifest_;
};

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 16.0;  ///< B A is scaled by alpha / rank
  double dropout = 0.0;
  std::vector<core::Role> targets;  ///< of Wq, Wk, Wv, Wo, W1, W3, W2
};

/// The matrices that "q,v" or "all" names, in the manifest's order. The names are q, k, v, o, gate, up and down, which
/// stand for peft's q_proj and so on. Throws core::UsageError that lists them.
[[nodiscard]] std::vector<core::Role> lora_targets(std::string_view names);

/// Copies of the file's numbers into a model that LoraLinears made: those of norms and biases, which are not trained.
void freeze_rest(nn::Llama& model, const core::StoredModel& weights);

/// Gives the targets of each layer of such a model an adapter that does nothing yet.
void add_lora(nn::Llama& model, const LoraOptions& options);

/// Where the parameters of the adapters are: "layers.0.attention.wq" has .lora_a and .lora_b.
[[nodiscard]] std::string lora_module(const core::TensorSpec& spec);

}  // namespace folio::train::lora
