// Modules and blocks that are deliberately broken, with one mistake each: drop-in replacements for the correct parts of
// a Llama. Used only inside experiments/.
#pragma once

#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "experiments/common/training.h"
#include "modules/attention.h"
#include "modules/rms_norm.h"

namespace folio::experiments {

/// RMSNorm without the square: x / sqrt(mean(x) + eps) · weight. Outputs NaN at positions whose mean is below -eps.
class MeanNormImpl : public nn::RMSNormImpl {
 public:
  using nn::RMSNormImpl::RMSNormImpl;
  torch::Tensor forward(const torch::Tensor& x);  ///< [B, T, dim] to [B, T, dim]
};
TORCH_MODULE(MeanNorm);

/// RMSNorm with the mean over the whole sequence instead of over each position, so that later tokens change the scale
/// of earlier ones.
class SequenceNormImpl : public nn::RMSNormImpl {
 public:
  using nn::RMSNormImpl::RMSNormImpl;
  torch::Tensor forward(const torch::Tensor& x);  ///< [B, T, dim] to [B, T, dim]
};
TORCH_MODULE(SequenceNorm);

/// Attention without the causal mask: each position attends to the whole window, including the token it must predict.
class UnmaskedAttentionImpl : public nn::AttentionImpl {
 public:
  using nn::AttentionImpl::AttentionImpl;

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

 protected:
  [[nodiscard]] torch::Tensor mask(int64_t T, torch::Device device, const torch::Tensor& starts) const override;
};
TORCH_MODULE(UnmaskedAttention);

/// Returns blocks that compute attention and never add it to the residual stream.
[[nodiscard]] ModelParts blocks_that_discard_attention();

/// Reinitializes embeddings and linear layers with LibTorch's defaults: N(0, 1), and U(-1/√n, 1/√n) for n inputs. The
/// weights of norms don't change. nn::initialize restores Llama's initialization.
void initialize_by_default(nn::Llama& model);

/// Returns blocks without residual connections: x = attention(norm(x)), then x = ffn(norm(x)). Later parts receive only
/// the previous part's output.
[[nodiscard]] ModelParts blocks_without_residuals();

}  // namespace folio::experiments
