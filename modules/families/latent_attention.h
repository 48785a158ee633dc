// Multi-head latent attention: keys and values of all heads are computed from one latent c per position, so that a
// cache needs only c and the part of the key with RoPE, which all heads share. Queries may come from a latent of their
// own.
//
//     [c'; k'] = wkv_a x, c = norm(c')                                                 (9)
//     k_h = [Wk_h c; rope(k')], v_h = Wv_h c                                           (10), (11), (15), (17)
//     [q'_h; q''_h] = rows of wq_b norm(wq_a x), or of wq x                            (12), (13)
//     q_h = [q'_h; rope(q''_h)]                                                        (14), (16)
//     y = wo · concat over heads h of softmax(q_h k_hᵀ · scale + causal mask) v_h      (18), (19)
//
// x, y [B, T, dim], c [B, T, kv_lora_rank], q_h and k_h [B, T, qk_nope_head_dim + qk_rope_head_dim], v_h [..,
// v_head_dim]. The scale is 1 / √(qk_nope_head_dim + qk_rope_head_dim), times YaRN's factor
// (ModelConfig::attention_scale). Source: equations of DeepSeek-AI, "DeepSeek-V2", 2024, sections 2.1.2 and 2.1.3; both
// norms: its section 3.1.2.
#pragma once

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>

#include <string>

#include "core/model_config.h"
#include "modules/linear.h"
#include "modules/rms_norm.h"
#include "modules/rope.h"

namespace folio::nn {

class LatentAttentionImpl : public torch::nn::Module {
 public:
  /// Creates a layer's attention. `rope` rotates heads of qk_rope_head_dim elements. Throws core::Error if the
  /// configuration is invalid or has no latent attention, or if dropout is outside [0, 1).
  LatentAttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0,
                      const Linears& linears = Linears(), const std::string& name = "attention");

  /// Maps x [B, T, dim] to [B, T, dim]. `starts` marks packed sequences (mask.h). Throws core::Error for another shape,
  /// or if T exceeds the context.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {});
  bool written_out = false;  ///< compute attention by its formula instead of LibTorch's own kernel

  /// Queries and keys [B, n_heads, T, head_dim], both rotated, values [B, n_heads, T, v_head_dim], and the vectors to
  /// cache, `latent` = [c; rope(k')], [B, T, kv_lora_rank + qk_rope_head_dim].
  struct Heads {
    torch::Tensor q, k, v, latent;
  };
  Heads project(const torch::Tensor& x);
  torch::Tensor attend(const Heads& heads, const torch::Tensor& starts = {});  ///< [B, n_heads, T, v_head_dim]

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

 private:
  core::ModelConfig config_;
  double dropout_;
  RopeCache rope_;
  Linear wq_, wq_a_, wq_b_;  ///< wq_a_ and wq_b_ if queries have a latent, else wq_; unused ones are empty
  Linear wkv_a_, wo_;
  RMSNorm q_a_norm_, kv_a_norm_;
  torch::Tensor wk_b_;  ///< [n_heads, kv_lora_rank, qk_nope_head_dim]: Wk_hᵀ of each head
  torch::Tensor wv_b_;  ///< [n_heads, v_head_dim, kv_lora_rank]: Wv_h of each head
};
TORCH_MODULE(LatentAttention);

}  // namespace folio::nn
