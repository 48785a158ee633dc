// The mistakes, each with the test that must fail first and words of its message:
//     one_below_zero: ALoopAveragesWhatCameSoFar: asks for more memory than there is at mistakes/path/averages.cpp
//     sums: ALoopAveragesWhatCameSoFar: 2, 6, 15 are the sums
//     sees_all: ALoopAveragesWhatCameSoFar: sees what comes later
//     divides_by_t: ALoopAveragesWhatCameSoFar: divided by t
//     rows_overlap: EachColumnIsByItself: begins at s * D
//     whole_numbers: ARowOfWeightsHasEqualShares: the quotient of whole numbers
//     upper_triangle: ARowOfWeightsHasEqualShares: columns are exchanged
//     no_mask: EqualScoresGiveEqualWeights: not masked
//     masked_after: EqualScoresGiveEqualWeights: masked after the softmax
//     no_exp: AHigherScoreGetsMoreWeight: without exp
//     no_maximum: LargeScoresStayFinite: Subtract the largest score
//     maximum_of_the_future: LargeScoresStayFinite: is masked in row 0
//     averages_keys: QueriesOfZeroGiveTheAverage: average of the keys
//     no_scale: AScoreIsADotProductOverTheRootOfItsWidth: is 0.9, but
//     root_of_d: AScoreIsADotProductOverTheRootOfItsWidth: what sqrt(D) gives
//     scaled_by_k: AScoreIsADotProductOverTheRootOfItsWidth: is 0.633975, but
#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

Floats average_by_loop(const Floats& x, size_t T, size_t D) {
  Floats y(wrong("one_below_zero") ? uint32_t{0} - 1 : T * D, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    const size_t n = wrong("sees_all") ? T : t + 1;
    const auto divisor = static_cast<float>(wrong("sums") ? 1 : wrong("divides_by_t") ? n - 1 : n);
    for (size_t d = 0; d < D; ++d) {
      float sum = 0.0F;
      for (size_t s = 0; s < n; ++s) sum += x[wrong("rows_overlap") ? s + d : s * D + d];
      y[t * D + d] = sum / divisor;
    }
  }
  return y;
}

Floats average_weights(size_t T) {
  Floats weights(T * T, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t s = 0; s <= t; ++s) {
      weights[wrong("upper_triangle") ? s * T + t : t * T + s] =
          wrong("whole_numbers") ? static_cast<float>(1 / (t + 1)) : 1.0F / static_cast<float>(t + 1);
    }
  }
  return weights;
}

Floats causal_softmax(const Floats& scores, size_t T) {
  Floats weights(T * T, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    const float* row = scores.data() + t * T;
    const size_t n = wrong("no_mask") || wrong("masked_after") ? T : t + 1;
    const float largest =
        wrong("no_maximum") ? 0.0F : *std::max_element(row, row + (wrong("maximum_of_the_future") ? T : n));
    // "no_exp": normalize the scores themselves instead of their exp, unless all are 0.
    const bool shares = wrong("no_exp") && std::any_of(row, row + n, [](float s) { return s != 0.0F; });
    float sum = 0.0F;
    for (size_t s = 0; s < n; ++s) sum += weights[t * T + s] = shares ? row[s] : std::exp(row[s] - largest);
    for (size_t s = 0; s < n; ++s) weights[t * T + s] /= sum;
    for (size_t s = t + 1; wrong("masked_after") && s < T; ++s) weights[t * T + s] = 0.0F;
  }
  return weights;
}

Floats attend(const Floats& q, const Floats& k, const Floats& v, size_t T, size_t K) {
  const size_t D = v.size() / T;
  const auto width = static_cast<float>(wrong("no_scale")      ? 1
                                        : wrong("root_of_d")   ? D
                                        : wrong("scaled_by_k") ? K * K
                                                               : K);
  Floats scores(T * T, 0.0F);
  for (size_t i = 0; i < T * T; ++i) {
    for (size_t d = 0; d < K; ++d) scores[i] += q[i / T * K + d] * k[i % T * K + d] / std::sqrt(width);
  }
  const Floats weights = causal_softmax(scores, T);
  Floats y(T * D, 0.0F);
  for (size_t i = 0; i < T * T; ++i) {
    for (size_t d = 0; d < D; ++d) y[i / T * D + d] += weights[i] * (wrong("averages_keys") ? k : v)[i % T * D + d];
  }
  return y;
}

}  // namespace folio::exercises
