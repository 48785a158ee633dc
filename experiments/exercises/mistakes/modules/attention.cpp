#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

// Switches for the mistakes in attention. With the default values, attention is correct.
struct Ways {
  bool rotated = true, scaled = true, neighbours_share = true, values_rotated = false, with_gradient = true;
  int64_t first_hidden = 1;  // first masked diagonal, as in triu(); 0: no mask
  double masked_score = -INFINITY;
  int64_t softmax_axis = -1;
  bool masked_after = false, root_of_dim = false;
};
using Way = Ways();

Ways sound_way() { return {}; }
Ways softmax_over_the_queries() { return {.softmax_axis = -2}; }
Ways mask_after_the_softmax() { return {.masked_after = true}; }
Ways no_mask() { return {.first_hidden = 0}; }
Ways mask_off_by_one() { return {.first_hidden = 2}; }
Ways masked_scores_of_zero() { return {.masked_score = 0.0}; }
Ways no_scale() { return {.scaled = false}; }
Ways root_of_dim() { return {.root_of_dim = true}; }
Ways no_rotation() { return {.rotated = false}; }
Ways heads_repeated_in_turn() { return {.neighbours_share = false}; }
Ways values_rotated() { return {.values_rotated = true}; }
Ways weights_without_gradient() { return {.with_gradient = false}; }

const std::vector<Mistake<Way>> kAttentionMistakes{
    {"softmax_over_the_queries", "EachRowOfWeightsSumsToOne", "not over the queries", softmax_over_the_queries},
    {"mask_after_the_softmax", "EachRowOfWeightsSumsToOne", "not 0 after it", mask_after_the_softmax},
    {"no_mask", "ALaterTokenChangesNoEarlierOutput", "have to be masked", no_mask},
    {"mask_off_by_one", "ALaterTokenChangesNoEarlierOutput", "have to be masked", mask_off_by_one},
    {"masked_scores_of_zero", "ALaterTokenChangesNoEarlierOutput", "have to be masked", masked_scores_of_zero},
    {"no_scale", "ScoresAreRotatedAndScaled", "/ sqrt(head_dim)", no_scale},
    {"root_of_dim", "ScoresAreRotatedAndScaled", "not of the model's", root_of_dim},
    {"no_rotation", "ScoresAreRotatedAndScaled", "rotated by their positions", no_rotation},
    {"heads_repeated_in_turn", "GroupedHeadsEqualRepeatedHeads", "neighbours share one", heads_repeated_in_turn},
    {"values_rotated", "EqualsLibTorchOnExplicitProjections", "are not rotated", values_rotated},
    {"weights_without_gradient", "GradientsEqualCentralDifferences", "taken out of the graph",
     weights_without_gradient},
};

// Reshapes x [B, T, heads · K] to [B, heads, T, K], applies RoPE if `rotated`, then repeats heads to [B, H, T, K]: in
// the order 0 0 1 1 if neighbours_share, else 0 1 0 1.
Tensor as_heads(const AttentionImpl& a, const Tensor& x, int64_t heads, bool rotated, bool neighbours_share) {
  const Tensor cut = x.unflatten(-1, {heads, a.head_dim});
  const Tensor each = (rotated ? a.rotate(cut) : cut).transpose(1, 2);
  const int64_t group = a.n_heads / heads;
  return neighbours_share ? each.repeat_interleave(group, 1) : each.repeat({1, group, 1, 1});
}

}  // namespace

Tensor AttentionImpl::weights(const Tensor& x) {
  const Ways way = chosen(kAttentionMistakes, sound_way)();
  const Tensor q = as_heads(*this, wq->forward(x), n_heads, way.rotated, true);
  const Tensor k = as_heads(*this, wk->forward(x), n_kv_heads, way.rotated, way.neighbours_share);
  const auto width = static_cast<double>(way.root_of_dim ? x.size(-1) : head_dim);
  const Tensor scores = q.matmul(k.transpose(-2, -1)) / (way.scaled ? std::sqrt(width) : 1.0);
  const Tensor later = way.first_hidden == 0 ? torch::zeros({1, 1}, torch::kBool)
                                             : torch::ones({x.size(1), x.size(1)}, torch::kBool).triu(way.first_hidden);
  const Tensor w = way.masked_after ? scores.softmax(-1).masked_fill(later, 0.0)
                                    : scores.masked_fill(later, way.masked_score).softmax(way.softmax_axis);
  return way.with_gradient ? w : w.detach();
}

Tensor AttentionImpl::forward(const Tensor& x) {
  const Ways way = chosen(kAttentionMistakes, sound_way)();
  const Tensor v = as_heads(*this, wv->forward(x), n_kv_heads, way.values_rotated, way.neighbours_share);
  return wo->forward(weights(x).matmul(v).transpose(1, 2).flatten(2));
}

}  // namespace folio::exercises
