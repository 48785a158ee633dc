// The mistakes, each with the test that must fail first and words of its message:
//     mask_hides_itself: OnePositionGivesItsOwnValue: does not see itself
//     no_softmax: OnePositionGivesItsOwnValue: did not go through the softmax
//     not_divided_by_the_sum: OnePositionGivesItsOwnValue: not divided by their sum
//     softmax_over_the_queries: TheWeightsOfAQuerySumToOne: wrong axis
//     mask_counts_from_the_first_query: EqualKeysGiveTheMeanOfTheValues: counts from the first query
//     no_mask: ALaterTokenChangesNoEarlierOutput: the mask is missing
//     mask_of_a_size_t: ALaterTokenChangesNoEarlierOutput: never below 0
//     mask_off_by_one: ALaterTokenChangesNoEarlierOutput: off by one
//     no_scale: ScoresAreDividedByTheRootOfTheHeadsWidth: is 0.880797, but
//     scaled_by_the_width: ScoresAreDividedByTheRootOfTheHeadsWidth: is 0.622459, but
//     heads_one_after_the_other: HeadsDoNotMix: side by side
//     root_of_all_heads: TheRootIsThatOfOneHead: is 0.669762, but
//     interleaved_groups: NeighbouringQueryHeadsShareAKeyHead: h % n_kv_heads
//     no_maximum_subtracted: LargeScoresStayFinite: subtract the largest score
//     maximum_of_the_future: LargeScoresStayFinite: of a later position
#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {

// A head's scores have a row per query and a column per position.
void attention(const float* q, const float* k, const float* v, const AttentionShape& s, float* out) {
  const auto width = static_cast<float>(wrong("root_of_all_heads") ? s.n_heads * s.head_dim : s.head_dim);
  const float scale = wrong("no_scale") ? 1.0F : 1.0F / (wrong("scaled_by_the_width") ? width : std::sqrt(width));
  const auto start = [&](size_t position, size_t head, size_t n_positions, size_t n_heads) {
    return (wrong("heads_one_after_the_other") ? head * n_positions + position : position * n_heads + head) *
           s.head_dim;
  };
  for (size_t h = 0; h < s.n_heads; ++h) {
    const size_t kv_head = wrong("interleaved_groups") ? h % s.n_kv_heads : h / (s.n_heads / s.n_kv_heads);
    std::vector<float> weights(s.n_queries * s.n_positions, 0.0F);
    const auto seen = [&](size_t r) {
      size_t n = s.n_positions - s.n_queries + r + 1;
      if (wrong("mask_hides_itself")) n -= 1;
      if (wrong("mask_counts_from_the_first_query")) n = r + 1;
      if (wrong("mask_off_by_one")) n += 1;
      return wrong("no_mask") || wrong("mask_of_a_size_t") ? s.n_positions : std::min(n, s.n_positions);
    };
    for (size_t r = 0; r < s.n_queries; ++r) {
      float* row = &weights[r * s.n_positions];
      const float* query = q + start(r, h, s.n_queries, s.n_heads);
      float max = -INFINITY;
      for (size_t j = 0; j < (wrong("maximum_of_the_future") ? s.n_positions : seen(r)); ++j) {
        const float* key = k + start(j, kv_head, s.n_positions, s.n_kv_heads);
        for (size_t d = 0; d < s.head_dim; ++d) row[j] += query[d] * key[d];
        row[j] *= scale;
        max = std::max(max, row[j]);
      }
      std::fill(row + seen(r), row + s.n_positions, 0.0F);
      if (wrong("no_softmax")) continue;
      const bool undivided = wrong("not_divided_by_the_sum") || wrong("softmax_over_the_queries");
      if (undivided || wrong("no_maximum_subtracted")) max = 0.0F;
      float sum = 0.0F;
      for (size_t j = 0; j < seen(r); ++j) sum += row[j] = std::exp(row[j] - max);
      if (undivided) continue;
      for (size_t j = 0; j < seen(r); ++j) row[j] /= sum;
    }
    for (size_t j = 0; wrong("softmax_over_the_queries") && j < s.n_positions; ++j) {
      float sum = 0.0F;
      for (size_t r = 0; r < s.n_queries; ++r) sum += weights[r * s.n_positions + j];
      for (size_t r = 0; r < s.n_queries; ++r) weights[r * s.n_positions + j] /= sum;
    }
    for (size_t r = 0; r < s.n_queries; ++r) {
      for (size_t d = 0; d < s.head_dim; ++d) {
        float sum = 0.0F;
        for (size_t j = 0; j < s.n_positions; ++j) {
          sum += weights[r * s.n_positions + j] * v[start(j, kv_head, s.n_positions, s.n_kv_heads) + d];
        }
        out[start(r, h, s.n_queries, s.n_heads) + d] = sum;
      }
    }
  }
}

}  // namespace folio::exercises
