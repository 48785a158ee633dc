// The whole model: token embeddings, n_layers blocks, a final norm, and a linear head, which is the embedding matrix if
// the configuration ties them.
//
//     logits = head norm(block_N(… block_1(embedding[tokens])))      tokens [B, T], logits [B, T, vocab_size]
//
//     nn::Llama model(config);
//     model->loss(tokens, targets).backward();
//
// Parameters have the names tok_embeddings, layers.N.{attention_norm, attention.{wq,wk,wv,wo}, ffn_norm,
// ffn.{w1,w2,w3}}, norm and output, each with ".weight".
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, section 2.2.
#pragma once

#include <memory>
#include <vector>

#include "modules/parts.h"

namespace folio::nn {

class LlamaImpl : public torch::nn::Module {
 public:
  /// Throws core::Error where the configuration is invalid, or asks for what the parts don't have.
  explicit LlamaImpl(const core::ModelConfig& config, std::shared_ptr<const Parts> parts = std::make_shared<Parts>());

  /// Token ids, int64 [B, T], to logits [B, T, vocab_size]; `starts` as in mask.h. Throws core::Error for another type
  /// or shape and if T exceeds the context, and LibTorch's c10::Error for ids outside the vocabulary.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& starts = {}) {
    return logits(stream(tokens, starts));
  }
  /// The mean cross-entropy in nats of `targets` [B, T] under these logits. Targets that are Parts::kIgnored do not
  /// count; at least one must. Throws as forward does, and where shapes or types differ.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets, const torch::Tensor& starts = {});

  /// The steps of forward(): token ids [B, T] to hidden states [B, T, dim]; blocks, which keep the shape; logits.
  torch::Tensor embed(const torch::Tensor& tokens);
  [[nodiscard]] std::vector<Block>& blocks() { return layers_; }
  torch::Tensor logits(const torch::Tensor& x) { return parts_->logits(config_, x, norm_, head_); }
  [[nodiscard]] RMSNorm& norm() { return norm_; }
  [[nodiscard]] const core::ModelConfig& config() const { return config_; }

 private:
  torch::Tensor stream(const torch::Tensor& tokens, const torch::Tensor& starts);  ///< after the last block

  core::ModelConfig config_;
  std::shared_ptr<const Parts> parts_;
  Embedding tok_embeddings_;
  std::vector<Block> layers_;
  RMSNorm norm_;
  Linear head_;
};
TORCH_MODULE(Llama);

/// Throws core::Error unless tokens are int64 [B, T], with T within the context.
void require_tokens(const torch::Tensor& tokens, const core::ModelConfig& config);

/// Sets the initial weights: matrices are drawn from N(0, 0.02²). For those whose output is added to the residual
/// stream (wo, w2), the standard deviation is divided by √(2 n_layers), so that the stream's variance does not grow
/// with the depth. Biases are 0; norms stay as they are. Source: Radford et al., GPT-2, 2019, section 2.3.
void initialize(torch::nn::Module& model, int64_t n_layers);

}  // namespace folio::nn
