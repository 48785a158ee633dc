// Parts that are broken on purpose, each with one mistake. They fit where the sound part fits, so that a study can set
// both side by side. Nothing outside of experiments/ uses them.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "experiments/common/training.h"
#include "modules/attention.h"

namespace folio::experiments {

/// x / sqrt(mean(x) + eps): the square is missing. Where a position's mean is below -eps this is not a number.
class MeanNormImpl : public torch::nn::Module {
 public:
  explicit MeanNormImpl(int64_t dim, double eps = 1e-5);
  torch::Tensor forward(const torch::Tensor& x);  ///< [B, T, dim] to [B, T, dim]

  torch::Tensor weight;  ///< [dim], ones at first

 private:
  double eps_;
};
TORCH_MODULE(MeanNorm);

/// x / sqrt(mean(x²) + eps), with the mean over the whole sequence instead of each position: what stands later in the
/// text changes the scale of what stands before.
class SequenceNormImpl : public torch::nn::Module {
 public:
  explicit SequenceNormImpl(int64_t dim, double eps = 1e-5);
  torch::Tensor forward(const torch::Tensor& x);  ///< [B, T, dim] to [B, T, dim]

  torch::Tensor weight;  ///< [dim], ones at first

 private:
  double eps_;
};
TORCH_MODULE(SequenceNorm);

/// Attention without the causal mask: position t sees the whole window, its own target among it.
class UnmaskedAttentionImpl : public nn::AttentionImpl {
 public:
  using nn::AttentionImpl::AttentionImpl;

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;
  torch::Tensor weights(const torch::Tensor& x);  ///< [B, n_heads, T, T], as Attention::weights
};
TORCH_MODULE(UnmaskedAttention);

/// Blocks that compute attention and forget to add it to the stream.
[[nodiscard]] ModelParts blocks_that_discard_attention(const core::ModelConfig& config);

/// Draws all parameters anew as LibTorch does by default: N(0, 1) for embeddings and U(-1/√n, 1/√n) for linear layers
/// of n inputs. nn::initialize is what mends it.
void initialize_by_default(nn::Llama& model);

/// Blocks without residual connections: x = attention(norm(x)), then x = ffn(norm(x)). What a part doesn't pass on is
/// lost to all that follow.
[[nodiscard]] ModelParts blocks_without_residuals(const core::ModelConfig& config);

}  // namespace folio::experiments
