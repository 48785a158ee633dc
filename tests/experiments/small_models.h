// Small models for tests of their variants, and how a changed token affects outputs.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "experiments/common/training.h"

namespace folio::experiments {

inline const core::ModelConfig kConfig{
    .vocab_size = 11, .dim = 16, .n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .hidden_dim = 24, .context_length = 12};

inline torch::Tensor random_tokens(int64_t rows, int64_t length) {
  return torch::randint(kConfig.vocab_size, {rows, length}, torch::kLong);
}

/// Multiplies the matrices by 15, so that every part affects the output.
inline nn::Llama with_large_weights(nn::Llama model) {
  const torch::NoGradGuard no_grad;
  for (auto& p : model->parameters()) p.mul_(p.dim() < 2 ? 1.0 : 15.0);
  return model;
}

/// Returns a model in double precision with large weights.
inline nn::Llama model_of(ModelParts blocks = {}) {
  nn::Llama model = seeded_llama(kConfig, 5, std::move(blocks));
  model->to(torch::kDouble);
  return with_large_weights(model);
}

inline double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

/// Returns the largest change of a logit at the n positions from `first` on if the token at position `at` is changed.
inline double effect(const ModelParts& blocks, int64_t at, int64_t first, int64_t n) {
  nn::Llama model = model_of(blocks);
  const torch::Tensor tokens = random_tokens(3, 8);
  torch::Tensor changed = tokens.clone();
  changed.select(1, at).add_(1).remainder_(kConfig.vocab_size);
  return largest_difference(model->forward(tokens).narrow(1, first, n), model->forward(changed).narrow(1, first, n));
}

}  // namespace folio::experiments
