#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  Sums,
  SeesAll,
  DividesByT,
  RowsOverlap,
  WholeNumbers,
  UpperTriangle,
  NoMask,
  MaskedAfter,
  NoExp,
  NoMaximum,
  AveragesKeys,
  NoScale,
  RootOfD,
  ScaledByK,
};
using WrongOf = Wrong();

template <Wrong kWrong>
Wrong is() {
  return kWrong;
}

const std::vector<Mistake<WrongOf>> kMistakes{
    {"sums", "ALoopAveragesWhatCameSoFar", "2, 6, 15 are the sums", is<Wrong::Sums>},
    {"sees_all", "ALoopAveragesWhatCameSoFar", "sees what comes later", is<Wrong::SeesAll>},
    {"divides_by_t", "ALoopAveragesWhatCameSoFar", "divided by t", is<Wrong::DividesByT>},
    {"rows_overlap", "EachColumnIsByItself", "begins at s * D", is<Wrong::RowsOverlap>},
    {"whole_numbers", "ARowOfWeightsHasEqualShares", "the quotient of whole numbers", is<Wrong::WholeNumbers>},
    {"upper_triangle", "ARowOfWeightsHasEqualShares", "columns are exchanged", is<Wrong::UpperTriangle>},
    {"no_mask", "EqualScoresGiveEqualWeights", "not masked", is<Wrong::NoMask>},
    {"masked_after", "EqualScoresGiveEqualWeights", "masked after the softmax", is<Wrong::MaskedAfter>},
    {"no_exp", "AHigherScoreGetsMoreWeight", "without exp", is<Wrong::NoExp>},
    {"no_maximum", "LargeScoresStayFinite", "Subtract the largest score", is<Wrong::NoMaximum>},
    {"averages_keys", "QueriesOfZeroGiveTheAverage", "average of the keys", is<Wrong::AveragesKeys>},
    {"no_scale", "AScoreIsADotProductOverTheRootOfItsWidth", "is 0.9, but", is<Wrong::NoScale>},
    {"root_of_d", "AScoreIsADotProductOverTheRootOfItsWidth", "what sqrt(D) gives", is<Wrong::RootOfD>},
    {"scaled_by_k", "AScoreIsADotProductOverTheRootOfItsWidth", "is 0.633975, but", is<Wrong::ScaledByK>},
};

Wrong wrong() { return chosen(kMistakes, is<Wrong::None>)(); }

}  // namespace

Floats average_by_loop(const Floats& x, size_t T, size_t D) {
  const Wrong w = wrong();
  Floats y(T * D, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    const size_t n = w == Wrong::SeesAll ? T : t + 1;
    const auto divisor = static_cast<float>(w == Wrong::Sums ? 1 : w == Wrong::DividesByT ? n - 1 : n);
    for (size_t d = 0; d < D; ++d) {
      float sum = 0.0F;
      for (size_t s = 0; s < n; ++s) sum += x[w == Wrong::RowsOverlap ? s + d : s * D + d];
      y[t * D + d] = sum / divisor;
    }
  }
  return y;
}

Floats average_weights(size_t T) {
  const Wrong w = wrong();
  Floats weights(T * T, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t s = 0; s <= t; ++s) {
      weights[w == Wrong::UpperTriangle ? s * T + t : t * T + s] =
          w == Wrong::WholeNumbers ? static_cast<float>(1 / (t + 1)) : 1.0F / static_cast<float>(t + 1);
    }
  }
  return weights;
}

Floats causal_softmax(const Floats& scores, size_t T) {
  const Wrong w = wrong();
  Floats weights(T * T, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    const float* row = scores.data() + t * T;
    const size_t n = w == Wrong::NoMask || w == Wrong::MaskedAfter ? T : t + 1;
    const float largest = w == Wrong::NoMaximum ? 0.0F : *std::max_element(row, row + n);
    // Wrong::NoExp: normalize the scores themselves instead of their exp, unless all are 0.
    const bool shares = w == Wrong::NoExp && std::any_of(row, row + n, [](float s) { return s != 0.0F; });
    float sum = 0.0F;
    for (size_t s = 0; s < n; ++s) sum += weights[t * T + s] = shares ? row[s] : std::exp(row[s] - largest);
    for (size_t s = 0; s < n; ++s) weights[t * T + s] /= sum;
    for (size_t s = t + 1; w == Wrong::MaskedAfter && s < T; ++s) weights[t * T + s] = 0.0F;
  }
  return weights;
}

Floats attend(const Floats& q, const Floats& k, const Floats& v, size_t T, size_t K) {
  const Wrong w = wrong();
  const size_t D = v.size() / T;
  const auto width = static_cast<float>(w == Wrong::NoScale     ? 1
                                        : w == Wrong::RootOfD   ? D
                                        : w == Wrong::ScaledByK ? K * K
                                                                : K);
  Floats scores(T * T, 0.0F);
  for (size_t i = 0; i < T * T; ++i) {
    for (size_t d = 0; d < K; ++d) scores[i] += q[i / T * K + d] * k[i % T * K + d] / std::sqrt(width);
  }
  const Floats weights = causal_softmax(scores, T);
  Floats y(T * D, 0.0F);
  for (size_t i = 0; i < T * T; ++i) {
    for (size_t d = 0; d < D; ++d) y[i / T * D + d] += weights[i] * (w == Wrong::AveragesKeys ? k : v)[i % T * D + d];
  }
  return y;
}

}  // namespace folio::exercises
