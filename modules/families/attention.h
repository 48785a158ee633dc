// What families add to attention: biases of wq, wk and wv, and of wo; a norm of each head of q and k, or of all at
// once, before they are rotated (Henry et al., "Query-Key Normalization", 2020); sinks, a score more for each head,
// whose value is 0 (gpt-oss, 2025); a sliding window W, where position t attends to t - W + 1 .. t; another scale than
// 1 / √head_dim; and a soft cap, with which a scaled score s becomes cap · tanh(s / cap) (Gemma 2, 2024).
#pragma once

#include <string>

#include "modules/attention.h"
#include "modules/rms_norm.h"

namespace folio::nn {

class FamilyAttentionImpl : public AttentionImpl {
 public:
  /// `config` is the layer's own, with its window or none. As AttentionImpl in all else, but always by the formula
  /// with a cap, and with sinks, with which weights sum to less than 1.
  FamilyAttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0,
                      const Linears& linears = Linears(), const std::string& name = "attention");

 protected:
  void before_rotation(torch::Tensor& q, torch::Tensor& k) override;
  torch::Tensor softmax(const torch::Tensor& scores, const torch::Tensor& mask) override;
  [[nodiscard]] torch::Tensor mask(int64_t T, torch::Device device, const torch::Tensor& starts) const override;

  int64_t window_;  ///< 0: none
  double cap_;      ///< 0: none

 private:
  bool norms_all_;           ///< q_norm and k_norm are over all heads at once
  RMSNorm q_norm_, k_norm_;  ///< empty in families that have none
  torch::Tensor sinks_;      ///< [n_heads]; undefined likewise
};
TORCH_MODULE(FamilyAttention);

}  // namespace folio::nn
