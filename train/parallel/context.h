// Context parallelism: the T positions of a sequence are divided among C ranks, and keys and values are passed around a
// ring. Rank c has chunks c and 2C - 1 - c of 2C ("zigzag").
//
//   C = 2         keys of chunks   0   1   2   3       In step s, rank c has the keys and values of rank c - s mod C.
//   rank 0  queries of chunk 0     ◣   ·   ·   ·       Queries attend to, under the causal mask (·):
//                      chunk 3     ■   ■   ■   ◣         step 0: their own chunks, masked by position;
//   rank 1  queries of chunk 1     ■   ◣   ·   ·         keys of a lower rank: its first chunk;
//                      chunk 2     ■   ■   ◣   ·         keys of a higher rank: both chunks, second query chunk only.
//
// All ranks do the same work in each step: two blocks (■) of four; ◣ is half a block. The next keys arrive while a
// step computes. A step yields a weighted mean of values and the log-sum-exp of its scores, used to merge the means
// of all steps. In the backward pass, the gradients of keys and values are sent around the ring, too.
// A rank sends 2 (C - 1) B G (T/C) K elements forward, and 2 (2C - 1) B G (T/C) K backward, for B sequences, G heads of
// keys and values, and K dimensions per head.
// Sources: Liu et al., "Ring Attention with Blockwise Transformers", 2023; equal work: Brandon et al., "Striped
// Attention", 2023, section 3; zigzag: "The Llama 3 Herd of Models", 2024, section 3.3.2.
#pragma once

#include "modules/families/attention.h"
#include "train/parallel/group.h"

namespace folio::train::parallel {

/// Computes causal attention over whole sequences. Each of C ranks passes q [B, H, T/C, K] and k, v [B, G, T/C, K] of
/// its own positions, after RoPE. Returns the output at these positions, [B, H, T/C, K]: B sequences of T positions, H
/// query heads, G key/value heads, K dimensions per head. Weights are softmax(scale · q · k). CPU only.
[[nodiscard]] torch::Tensor ring_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                           double scale, Group& context);

class ContextAttentionImpl : public nn::FamilyAttentionImpl {
 public:
  /// Throws core::Error for a sliding window, a soft cap of scores, or dropout. The group must outlive the module and
  /// its graphs.
  ContextAttentionImpl(const core::ModelConfig& config, nn::RopeCache rope, Group& context, double dropout = 0.0);

  /// Returns the attention output for x [sequences, positions, dim], this rank's two chunks, in the same shape.
  /// `starts` must be undefined: packed sequences are not supported (combinations.cpp).
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

 private:
  Group& context_;
};
TORCH_MODULE(ContextAttention);

}  // namespace folio::train::parallel
