// Context parallelism: the T positions of a sequence are divided among C ranks, and keys and values travel around a
// ring. Rank c has the chunks c and 2C - 1 - c of 2C ("zigzag").
//
//   C = 2         keys of chunks   0   1   2   3       in step 0 a rank has its own keys and values, in step s those of
//   rank 0  queries of chunk 0     ◣   ·   ·   ·       rank c - s. Its queries attend, under the causal mask (·), to
//                      chunk 3     ■   ■   ■   ◣       its own: all, by their positions; of a rank before: its first
//   rank 1  queries of chunk 1     ■   ◣   ·   ·       chunk; of a rank after: both, by the second chunk of queries
//                      chunk 2     ■   ■   ◣   ·       only. Each is two blocks of ■.
//
// All ranks have the same work in each step, half of that without the mask. The next keys arrive while a step computes.
// A step yields a mean of values and the logarithm of its weights' sum, by which the means are merged. In the backward
// pass the gradients of keys and values travel with them.
// A rank sends 2 (C - 1) B G (T/C) K elements forward, and 2 (2C - 1) B G (T/C) K backward.
// Sources: Liu et al., "Ring Attention with Blockwise Transformers", 2023; equal work: Brandon et al., "Striped
// Attention", 2023, section 3; zigzag: "The Llama 3 Herd of Models", 2024, section 3.3.2.
#pragma once

#include "modules/families/attention.h"
#include "train/parallel/group.h"

namespace folio::train::parallel {

/// With the keys of rank `from`: a rank's queries of chunks first_query .. 1, of its two, attend to the keys of chunks
/// 0 .. n_keys - 1.
struct RingBlock {
  int64_t first_query;
  int64_t n_keys;
  bool causal;  ///< query i attends to keys up to i; otherwise to all
};
[[nodiscard]] RingBlock ring_block(int64_t rank, int64_t from);

/// The attention of a whole sequence, computed by all ranks of the group. q [B, H, T/C, K], k and v [B, G, T/C, K] of
/// this rank's positions, rotated; to the weighted means of the values, [B, H, T/C, K]. Query head h reads key head
/// h / (H / G). Weights are the softmax of scale · q · k. On CPUs.
[[nodiscard]] torch::Tensor ring_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                           double scale, Group& context);

class ContextAttentionImpl : public nn::FamilyAttentionImpl {
 public:
  /// Throws core::Error where the configuration has a window or a cap of scores, and for dropout. The group must
  /// outlive the module and its graphs.
  ContextAttentionImpl(const core::ModelConfig& config, nn::RopeCache rope, Group& context, double dropout = 0.0);

  /// x [B, T/C, dim] of this rank's two chunks, to one of the same shape. Throws core::Error for `starts`.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

 private:
  Group& context_;
};
TORCH_MODULE(ContextAttention);

}  // namespace folio::train::parallel
