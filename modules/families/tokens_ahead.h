// Multi-token prediction (MTP): a module that predicts the token after the next from the model's hidden state h_i and
// the next token. It shares embedding and head with the model, and its block is layer n_layers:
//
//     x_i = M [norm(Emb(t_{i+1})); norm(h_i)]      y = Block(x)      logits of t_{i+2} = Head(norm(y_i))
//     total loss = loss of the next tokens + weight · loss of the tokens after them
#pragma once

#include <memory>

#include "modules/llama.h"

namespace folio::nn {

/// A Llama with one module for multi-token prediction. Source: DeepSeek-AI, "DeepSeek-V3", 2024, section 2.2, equations
/// 21 to 25. As in its published weights, M reads the embedding first (equation 21 has the hidden state first), and h_i
/// is after the final norm. Equation 24 divides by T, after_next by the number of targets.
class LlamaAheadImpl : public LlamaImpl {
 public:
  struct Losses {
    torch::Tensor next;        ///< mean cross-entropy of the next tokens, in nats
    torch::Tensor after_next;  ///< mean cross-entropy of the tokens after the next ones, in nats; 0 without targets
  };

  /// Initializes LlamaImpl's weights before the module's, so that for a given seed they equal those of a Llama without
  /// the module. Throws core::Error if the configuration is invalid or needs features that `parts` lacks.
  LlamaAheadImpl(const core::ModelConfig& config, const std::shared_ptr<const Parts>& parts);

  /// Returns y [B, T, dim], the module's output before its norm, for h [B, T, dim] and the next tokens, int64 [B, T].
  torch::Tensor ahead(const torch::Tensor& h, const torch::Tensor& next, const torch::Tensor& starts = {});
  /// Returns both losses, differentiable in all weights. The arguments are those of loss().
  Losses losses(const torch::Tensor& tokens, const torch::Tensor& targets, const torch::Tensor& starts = {});

  [[nodiscard]] RMSNorm& output_norm() { return output_norm_; }

 private:
  // Registered as modules of the block, so that parameters are named as in the manifest: layers.N.projection.weight.
  Block block_;
  RMSNorm embedding_norm_, hidden_norm_, output_norm_;
  Linear projection_;
};
TORCH_MODULE(LlamaAhead);

/// Returns the module's targets [B, T]: at each position, the target of the next position. The last position of a row
/// or of a packed sequence has Parts::kIgnored.
[[nodiscard]] torch::Tensor targets_ahead(const torch::Tensor& targets, const torch::Tensor& starts);

/// Builds a Llama, with a module for multi-token prediction if config.n_tokens_ahead is 1.
[[nodiscard]] Llama llama_of(const core::ModelConfig& config, std::shared_ptr<const Parts> parts);

}  // namespace folio::nn
