// The whole model: token embeddings, n_layers blocks, a final norm and a linear output head. If config.tie_embeddings
// is set, the head's weight is the embedding matrix.
//
//     logits = head norm(block_N(… block_1(embedding[tokens])))      tokens [B, T], logits [B, T, vocab_size]
//
//     nn::Llama model(config);
//     model->loss(tokens, targets).backward();
//
// Parameters are named tok_embeddings, layers.N.{attention_norm, attention.{wq,wk,wv,wo}, ffn_norm, ffn.{w1,w2,w3}},
// norm and output, each followed by ".weight".
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, section 2.2.
#pragma once

#include <memory>
#include <vector>

#include "modules/parts.h"

namespace folio::nn {

class LlamaImpl : public torch::nn::Module {
 public:
  /// Creates random weights (initialize()). Throws core::Error for an invalid config, or one that `parts` can't build.
  explicit LlamaImpl(const core::ModelConfig& config, std::shared_ptr<const Parts> parts = std::make_shared<Parts>());

  /// Returns the logits [B, T, vocab_size] of token ids, int64 [B, T]; `starts` marks packed sequences (mask.h). Throws
  /// core::Error for another type or shape or if T exceeds the context, and c10::Error for ids outside the vocabulary.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& starts = {}) {
    return logits(stream(tokens, starts));
  }
  /// Returns the mean cross-entropy, in nats, of targets [B, T]. Targets equal to Parts::kIgnored are ignored, and at
  /// least one must count. Throws as forward() does, and if targets differ from tokens in shape or type.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets, const torch::Tensor& starts = {});

  /// Maps token ids [B, T] to x [B, T, dim], the first block's input. forward() calls embed(), all blocks and logits().
  torch::Tensor embed(const torch::Tensor& tokens);
  [[nodiscard]] std::vector<Block>& blocks() { return layers_; }
  torch::Tensor logits(const torch::Tensor& x) { return parts_->logits(config_, x, norm_, head_); }
  [[nodiscard]] RMSNorm& norm() { return norm_; }
  [[nodiscard]] const core::ModelConfig& config() const { return config_; }

 protected:
  torch::Tensor stream(const torch::Tensor& tokens, const torch::Tensor& starts);  ///< last block's output [B, T, dim]

  core::ModelConfig config_;
  std::shared_ptr<const Parts> parts_;
  Embedding tok_embeddings_;
  std::vector<Block> layers_;
  RMSNorm norm_;
  Linear head_;
};
TORCH_MODULE(Llama);

/// Initializes matrices from N(0, 0.02²) and biases to 0; norms are unchanged. For matrices that write to the residual
/// stream (wo, w2), the standard deviation is divided by √(2 n_layers), so that the stream's variance does not grow
/// with depth. Source: Radford et al., GPT-2, 2019, section 2.3.
void initialize(torch::nn::Module& model, int64_t n_layers);

}  // namespace folio::nn
