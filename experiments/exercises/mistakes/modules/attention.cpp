// The mistakes, each with the test that must fail first and words of its message:
//     softmax_over_the_queries: EachRowOfWeightsSumsToOne: not over the queries
//     mask_after_the_softmax: EachRowOfWeightsSumsToOne: not 0 after it
//     mask_in_double: EachRowOfWeightsSumsToOne: have x's type
//     no_mask: ALaterTokenChangesNoEarlierOutput: have to be masked
//     mask_off_by_one: ALaterTokenChangesNoEarlierOutput: have to be masked
//     masked_scores_of_zero: ALaterTokenChangesNoEarlierOutput: have to be masked
//     no_scale: ScoresAreRotatedAndScaled: / sqrt(head_dim)
//     root_of_dim: ScoresAreRotatedAndScaled: not of the model's
//     no_rotation: ScoresAreRotatedAndScaled: rotated by their positions
//     heads_repeated_in_turn: GroupedHeadsEqualRepeatedHeads: neighbours share one
//     values_rotated: EqualsLibTorchOnExplicitProjections: are not rotated
//     weights_without_gradient: GradientsEqualCentralDifferences: taken out of the graph
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

// Reshapes x [B, T, heads · K] to [B, heads, T, K], applies RoPE if `rotated`, then repeats heads to [B, H, T, K] in
// the order 0 0 1 1, or wrongly 0 1 0 1.
Tensor as_heads(const AttentionImpl& a, const Tensor& x, int64_t heads, bool rotated) {
  const Tensor cut = x.unflatten(-1, {heads, a.head_dim});
  const Tensor each = (rotated ? a.rotate(cut) : cut).transpose(1, 2);
  const int64_t group = a.n_heads / heads;
  return wrong("heads_repeated_in_turn") ? each.repeat({1, group, 1, 1}) : each.repeat_interleave(group, 1);
}

}  // namespace

Tensor AttentionImpl::weights(const Tensor& x) {
  const Tensor q = as_heads(*this, wq->forward(x), n_heads, !wrong("no_rotation"));
  const Tensor k = as_heads(*this, wk->forward(x), n_kv_heads, !wrong("no_rotation"));
  const auto width = static_cast<double>(wrong("root_of_dim") ? x.size(-1) : head_dim);
  const Tensor scores = q.matmul(k.transpose(-2, -1)) / (wrong("no_scale") ? 1.0 : std::sqrt(width));
  const int64_t first_hidden = wrong("mask_off_by_one") ? 2 : 1;
  const Tensor later = wrong("no_mask") ? torch::zeros({1, 1}, torch::kBool)
                                        : torch::ones({x.size(1), x.size(1)}, torch::kBool).triu(first_hidden);
  if (wrong("mask_after_the_softmax")) return scores.softmax(-1).masked_fill(later, 0.0);
  const double masked_score = wrong("masked_scores_of_zero") ? 0.0 : -INFINITY;
  Tensor masked = scores.masked_fill(later, masked_score);
  if (wrong("mask_in_double")) masked = scores + torch::full_like(later, -INFINITY, torch::kDouble).triu(1);
  const Tensor w = masked.softmax(wrong("softmax_over_the_queries") ? -2 : -1);
  return wrong("weights_without_gradient") ? w.detach() : w;
}

Tensor AttentionImpl::forward(const Tensor& x) {
  const Tensor v = as_heads(*this, wv->forward(x), n_kv_heads, wrong("values_rotated"));
  return wo->forward(weights(x).matmul(v).transpose(1, 2).flatten(2));
}

}  // namespace folio::exercises
