// Attention of families other than Llama: biases of wq, wk, wv and wo; RMSNorm of q and k before RoPE, per head or over
// all heads (Henry et al., "Query-Key Normalization", 2020); attention sinks, one extra score per head whose value
// vector is 0 (gpt-oss, 2025); a sliding window W, with which position t attends to t - W + 1 .. t; a scale other than
// 1 / √head_dim; and a soft cap, which maps each scaled score s to cap · tanh(s / cap) (Gemma 2, 2024).
#pragma once

#include <string>

#include "modules/attention.h"
#include "modules/rms_norm.h"

namespace folio::nn {

class FamilyAttentionImpl : public AttentionImpl {
 public:
  /// Creates attention from the layer's own `config`, whose sliding_window is 0 in layers without a window. With a soft
  /// cap or sinks, attention is always computed by its formula. With sinks, the weights of a query sum to less than 1.
  FamilyAttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0,
                      const Linears& linears = Linears(), const std::string& name = "attention");

 protected:
  void before_rotation(torch::Tensor& q, torch::Tensor& k) override;
  torch::Tensor softmax(const torch::Tensor& scores, const torch::Tensor& mask) override;
  [[nodiscard]] torch::Tensor mask(int64_t T, torch::Device device, const torch::Tensor& starts) const override;

  int64_t window_;  ///< positions in the sliding window; 0: no window
  double cap_;      ///< soft cap of scores; 0: no cap

 private:
  bool norms_all_;           ///< q_norm and k_norm normalize over all heads together, not per head
  RMSNorm q_norm_, k_norm_;  ///< empty in families without query-key norms
  torch::Tensor sinks_;      ///< [n_heads]; undefined in families without sinks
};
TORCH_MODULE(FamilyAttention);

}  // namespace folio::nn
