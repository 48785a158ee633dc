// Factory of a model's submodules, and the computations before its first block (embedding) and after its last one
// (norm, head, loss). Derive and override to replace a part of the model; linear layers come from Linears (linear.h).
//
//     struct ReluParts : nn::Parts {
//       AnyModule feed_forward(const core::ModelConfig& c, int64_t) const override { return AnyModule(Relu(c.dim)); }
//     };
//     nn::Llama model(config, std::make_shared<ReluParts>());
#pragma once

#include <torch/nn/modules/container/any.h>

#include <memory>

#include "core/model_config.h"
#include "modules/block.h"
#include "modules/linear.h"
#include "modules/rms_norm.h"
#include "modules/rope.h"

namespace folio::nn {

struct PartOptions {
  double dropout = 0.0;      ///< dropout probability in training: embeddings, attention weights, branch outputs
  bool written_out = false;  ///< compute attention by its formula instead of LibTorch's kernel (attention.h)
  std::shared_ptr<const Linears> linears = dense();
};

class Parts {
 public:
  /// Throws core::Error unless dropout is in [0, 1).
  explicit Parts(PartOptions options = {});
  virtual ~Parts() = default;

  /// Creates the rotations that all layers share.
  [[nodiscard]] virtual RopeCache rope(const core::ModelConfig& c) const {
    return RopeCache(c.context_length, c.head_dim, c.rope_theta);
  }
  /// Creates a layer's attention; feed_forward() creates its feed-forward network. Both map [B, T, dim] to [B, T, dim].
  [[nodiscard]] virtual torch::nn::AnyModule attention(const core::ModelConfig& config, RopeCache rope,
                                                       int64_t layer) const;
  [[nodiscard]] virtual torch::nn::AnyModule feed_forward(const core::ModelConfig& config, int64_t layer) const;
  /// Creates a layer's attention and feed-forward network, and a norm before each of the two.
  [[nodiscard]] virtual BlockParts block_parts(const core::ModelConfig& config, RopeCache rope, int64_t layer) const;
  [[nodiscard]] virtual Block block(const core::ModelConfig& config, RopeCache rope, int64_t layer) const;

  /// Maps token ids [B, T] to the first block's input, [B, T, dim].
  virtual torch::Tensor embed(const core::ModelConfig& /*config*/, Embedding rows, const torch::Tensor& tokens) const {
    return torch::dropout(rows->forward(tokens), options_.dropout, rows->is_training());
  }
  /// Maps the last block's output x [B, T, dim] to logits [B, T, vocab_size].
  virtual torch::Tensor logits(const core::ModelConfig& /*config*/, const torch::Tensor& x, RMSNorm norm,
                               Linear head) const {
    return head->forward(norm->forward(x));
  }
  /// Returns the mean cross-entropy in nats of targets [B, T] that differ from kIgnored; x as in logits().
  virtual torch::Tensor loss(const core::ModelConfig& config, const torch::Tensor& x, RMSNorm norm, Linear head,
                             const torch::Tensor& targets) const {
    return torch::cross_entropy_loss(logits(config, x, norm, head).flatten(0, 1), targets.flatten());
  }
  static constexpr int64_t kIgnored = -100;  ///< targets with this value have no loss; LibTorch's default ignore_index

  [[nodiscard]] const PartOptions& options() const { return options_; }

 private:
  PartOptions options_;
};

}  // namespace folio::nn
