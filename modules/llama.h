// The whole model: token embeddings, n_layers blocks, a final norm, and a linear head, which is the embedding matrix
// if the configuration ties them. Parameters have the names tok_embeddings, layers.N.{attention_norm,
// attention.{wq,wk,wv,wo}, ffn_norm, ffn.{w1,w2,w3}}, norm and output, each with ".weight". Some families have
// attention.{wq,wk,wv}.bias, or attention.{q_norm,k_norm}.weight in addition, and in layers with experts ffn is a
// Mixture (experts.h). There are no others, but for adapters (lora.h). A frozen model (frozen.h) has parameters for its
// norms and biases alone.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/model_config.h"
#include "modules/attention.h"
#include "modules/block.h"
#include "modules/frozen.h"
#include "modules/fused/operand.h"
#include "modules/rms_norm.h"

namespace folio::nn {

/// Makes the block of one layer, 0 <= layer < n_layers.
using BlockFactory = std::function<Block(const core::ModelConfig& config, int64_t layer)>;

/// The layers first .. last - 1 of a model. What begins with layer 0 has the embeddings, too; what ends with the last
/// layer has the final norm and the head.
struct LayerRange {
  int64_t first = 0;
  int64_t last = -1;  ///< -1: behind the model's last layer
};

/// The rotations of a configuration, those of layers with a window but where these have a base of their own.
[[nodiscard]] RopeCache rope_of(const core::ModelConfig& config);

/// Makes the parts of one layer's block, as llama_parts does: `config` is the layer's own, with its window.
using PartsFactory =
    std::function<BlockParts(const core::ModelConfig& config, RopeCache rope, double dropout, int64_t layer)>;

/// Makes Llama's own blocks, which share one RopeCache. The parts come from `make_parts`, whose default is llama_parts.
[[nodiscard]] BlockFactory llama_blocks(const core::ModelConfig& config, double dropout = 0.0,
                                        PartsFactory make_parts = {});

/// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, section 2.2.
class LlamaImpl : public torch::nn::Module {
 public:
  /// `dropout` acts on the embeddings, and in llama_blocks on attention weights and branches. With `make_block` an
  /// experiment replaces parts of blocks; the default is llama_blocks(config, dropout). initialize() sets the initial
  /// weights.
  /// With `frozen`, whose configuration is this one, the weights are these, and none is a parameter that is trained
  /// (frozen.h); lora.h adds what is.
  /// With `range` it is a part of a model whose other layers are elsewhere; parameters have the names of the whole. A
  /// tied head without the embeddings has tok_embeddings of its own. A frozen model is not cut.
  /// Throws core::Error where the configuration or the range is invalid or dropout is not in [0, 1).
  explicit LlamaImpl(const core::ModelConfig& config, double dropout = 0.0, BlockFactory make_block = {},
                     const std::shared_ptr<const FrozenWeights>& frozen = nullptr, LayerRange range = {});

  /// Token ids, int64 [B, T], to logits [B, T, vocab_size]. The observer gets "embedding", the activations of
  /// each block with the prefix "layers.N.", "norm" and "logits". `starts` [B, T] says where in its row each token's
  /// own sequence begins (attention.h); undefined: at 0. Throws core::Error for another type or shape and if T exceeds
  /// the context, and LibTorch's c10::Error for ids outside the vocabulary.
  torch::Tensor forward(const torch::Tensor& tokens, const Observer& observer = {}, const torch::Tensor& starts = {});

  /// The mean cross-entropy in nats of `targets` [B, T] under the logits of `tokens` [B, T], a scalar. Targets that are
  /// kIgnored do not count; there has to be another. Throws as forward does, and where shapes or types differ.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets, const torch::Tensor& starts = {});
  static constexpr int64_t kIgnored = -100;  ///< as LibTorch's cross_entropy_loss() has it

  /// The three steps of loss(), of which a part has its own. Token ids [B, T] to the embeddings' rows [B, T, dim].
  torch::Tensor embed(const torch::Tensor& tokens, const Observer& observer = {});
  /// x [B, T, dim] through the layers of the range, of the same shape.
  torch::Tensor through(torch::Tensor x, const Observer& observer = {}, const torch::Tensor& starts = {});
  /// loss() of what comes out of the last layer, [B, T, dim].
  torch::Tensor loss_of(const torch::Tensor& x, const torch::Tensor& targets);

  /// Fused: on a CPU, loss() has the norm, the head and the cross-entropy in one function (fused/head.h).
  Form form = Form::Plain;

  [[nodiscard]] const core::ModelConfig& config() const { return config_; }
  [[nodiscard]] LayerRange range() const { return range_; }
  [[nodiscard]] bool is_first() const { return range_.first == 0; }
  [[nodiscard]] bool is_last() const { return range_.last == config_.n_layers; }

 private:
  /// x after the last block to the logits [B, T, vocab_size].
  torch::Tensor logits_of(const torch::Tensor& x, const Observer& observer);
  /// [vocab_size, dim], of this type if it is frozen
  [[nodiscard]] torch::Tensor head(torch::ScalarType type) const;

  core::ModelConfig config_;
  double dropout_;
  LayerRange range_;
  fused::Operand fused_head_;
  torch::nn::Embedding tok_embeddings_;  ///< empty if it is frozen, or elsewhere
  std::vector<Block> layers_;            ///< of the range
  RMSNorm norm_;                         ///< empty if it is elsewhere
  torch::nn::Linear output_;             ///< empty if the head is tied, frozen or elsewhere
  std::shared_ptr<const FrozenMatrix> frozen_embeddings_, frozen_output_;
};
TORCH_MODULE(Llama);

/// A model all of whose parts, attention too, are LibTorch's operations one by one. `frozen` is as LlamaImpl has it.
[[nodiscard]] Llama plain_llama(const core::ModelConfig& config, double dropout = 0.0,
                                const std::shared_ptr<const FrozenWeights>& frozen = nullptr);

/// Sets the initial weights: matrices are drawn from N(0, 0.02²). For those whose output is added to the residual
/// stream (wo, w2), the standard deviation is divided by √(2 n_layers), so that the stream's variance after the last
/// layer doesn't depend on the depth. Biases are 0; norms stay as they are. Source: Radford et al., GPT-2, 2019,
/// section 2.3.
void initialize(torch::nn::Module& model, int64_t n_layers);

}  // namespace folio::nn
