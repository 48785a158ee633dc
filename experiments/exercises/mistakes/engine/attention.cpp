#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

// Selects one deliberate mistake in attention. A head's scores have a row per query and a column per position.
enum class Wrong {
  HidesItself,
  NoSoftmax,
  NotDividedByTheSum,
  SoftmaxOverTheQueries,
  CountsFromTheFirstQuery,
  NoMask,
  SeesOneMore,
  NoScale,
  ScaledByTheWidth,
  RootOfAllHeads,
  HeadsOneAfterTheOther,
  InterleavedGroups,
  NoMaximumSubtracted,
};

template <Wrong kWrong>
void attend(const float* q, const float* k, const float* v, const AttentionShape& s, float* out) {
  using enum Wrong;
  const auto width = static_cast<float>(kWrong == RootOfAllHeads ? s.n_heads * s.head_dim : s.head_dim);
  const float scale = kWrong == NoScale ? 1.0F : 1.0F / (kWrong == ScaledByTheWidth ? width : std::sqrt(width));
  const auto start = [&](size_t position, size_t head, size_t n_positions, size_t n_heads) {
    return (kWrong == HeadsOneAfterTheOther ? head * n_positions + position : position * n_heads + head) * s.head_dim;
  };
  for (size_t h = 0; h < s.n_heads; ++h) {
    const size_t kv_head = kWrong == InterleavedGroups ? h % s.n_kv_heads : h / (s.n_heads / s.n_kv_heads);
    std::vector<float> weights(s.n_queries * s.n_positions, 0.0F);
    const auto seen = [&](size_t r) {
      size_t n = s.n_positions - s.n_queries + r + 1;
      if (kWrong == HidesItself) n -= 1;
      if (kWrong == CountsFromTheFirstQuery) n = r + 1;
      if (kWrong == SeesOneMore) n += 1;
      return kWrong == NoMask ? s.n_positions : std::min(n, s.n_positions);
    };
    for (size_t r = 0; r < s.n_queries; ++r) {
      float* row = &weights[r * s.n_positions];
      const float* query = q + start(r, h, s.n_queries, s.n_heads);
      float max = -INFINITY;
      for (size_t j = 0; j < seen(r); ++j) {
        const float* key = k + start(j, kv_head, s.n_positions, s.n_kv_heads);
        for (size_t d = 0; d < s.head_dim; ++d) row[j] += query[d] * key[d] * scale;
        max = std::max(max, row[j]);
      }
      if (kWrong == NoSoftmax) continue;
      if (kWrong == NoMaximumSubtracted || kWrong == NotDividedByTheSum || kWrong == SoftmaxOverTheQueries) max = 0.0F;
      float sum = 0.0F;
      for (size_t j = 0; j < seen(r); ++j) sum += row[j] = std::exp(row[j] - max);
      if (kWrong == NotDividedByTheSum || kWrong == SoftmaxOverTheQueries) continue;
      for (size_t j = 0; j < seen(r); ++j) row[j] /= sum;
    }
    for (size_t j = 0; kWrong == SoftmaxOverTheQueries && j < s.n_positions; ++j) {
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

const std::vector<Mistake<decltype(attention)>> kMistakes{
    {"mask_hides_itself", "OnePositionGivesItsOwnValue", "does not see itself", attend<Wrong::HidesItself>},
    {"no_softmax", "OnePositionGivesItsOwnValue", "did not go through the softmax", attend<Wrong::NoSoftmax>},
    {"not_divided_by_the_sum", "OnePositionGivesItsOwnValue", "not divided by their sum",
     attend<Wrong::NotDividedByTheSum>},
    {"softmax_over_the_queries", "TheWeightsOfAQuerySumToOne", "wrong axis", attend<Wrong::SoftmaxOverTheQueries>},
    {"mask_counts_from_the_first_query", "EqualKeysGiveTheMeanOfTheValues", "counts from the first query",
     attend<Wrong::CountsFromTheFirstQuery>},
    {"no_mask", "ALaterTokenChangesNoEarlierOutput", "the mask is missing", attend<Wrong::NoMask>},
    {"mask_of_a_size_t", "ALaterTokenChangesNoEarlierOutput", "never below 0", attend<Wrong::NoMask>},
    {"mask_off_by_one", "ALaterTokenChangesNoEarlierOutput", "off by one", attend<Wrong::SeesOneMore>},
    {"no_scale", "ScoresAreDividedByTheRootOfTheHeadsWidth", "is 0.880797, but", attend<Wrong::NoScale>},
    {"scaled_by_the_width", "ScoresAreDividedByTheRootOfTheHeadsWidth", "is 0.622459, but",
     attend<Wrong::ScaledByTheWidth>},
    {"heads_one_after_the_other", "HeadsDoNotMix", "side by side", attend<Wrong::HeadsOneAfterTheOther>},
    {"root_of_all_heads", "TheRootIsThatOfOneHead", "is 0.669762, but", attend<Wrong::RootOfAllHeads>},
    {"interleaved_groups", "NeighbouringQueryHeadsShareAKeyHead", "h % n_kv_heads", attend<Wrong::InterleavedGroups>},
    {"no_maximum_subtracted", "LargeScoresStayFinite", "subtract the largest score",
     attend<Wrong::NoMaximumSubtracted>},
};

}  // namespace

void attention(const float* q, const float* k, const float* v, const AttentionShape& shape, float* out) {
  chosen(kMistakes, reference::attention)(q, k, v, shape, out);
}

}  // namespace folio::exercises
