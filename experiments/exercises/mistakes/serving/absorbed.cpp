// The mistakes, each with the test that must fail first and words of its message:
//     transposed: TheKeysMatrixMovesToTheQuery: is 21, but
//     rotation_absorbed: TheOtherPartIsRotated: cannot be absorbed
//     whole_query: TheOtherPartIsRotated: is 0.99995, but
//     latent_rotated: LatentsAreNotRotated: has no rotation
//     first_matrix: AHeadHasItsOwnMatrix: begins at head * nope * rank
//     latents_width: TheScaleIsThatOfThePlainForm: is 2.73999, but
//     rank: TheScaleIsThatOfThePlainForm: is 2.84134, but
//     nope_alone: TheScaleIsThatOfThePlainForm: is 3.30177, but
//     no_scale: TheScaleIsThatOfThePlainForm: is 3.6, but
//     no_maximum: LargeScoresStayFinite: subtract the largest score
//     latents_alone: RotatedPartsHaveAShareInTheScore: is 2, but
//     next_position: RotatedPartsHaveAShareInTheScore: positions - 1
//     values_transposed: TheValuesMatrixComesLast: is 111, but
//     first_values: AbsorbedEqualsPlain: the first head's W_v
#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

Floats absorbed_query(const LatentAttention& a, size_t head, const Floats& q, size_t position) {
  const float* wk = a.wk.data() + (wrong("first_matrix") ? 0 : head * a.nope * a.rank);
  Floats query(a.rank, 0.0F);
  for (size_t n = 0; n < a.nope; ++n) {
    for (size_t r = 0; r < a.rank; ++r) {
      query[r] += wk[wrong("transposed") ? r * a.nope + n : n * a.rank + r] * q[n];
    }
  }
  if (wrong("latent_rotated")) query = rotated(query, position);
  Floats turned(q.begin() + static_cast<std::ptrdiff_t>(a.nope), q.end());
  if (wrong("whole_query")) {
    const Floats whole = rotated(q, position);
    turned.assign(whole.begin() + static_cast<std::ptrdiff_t>(a.nope), whole.end());
  } else if (!wrong("rotation_absorbed")) {
    turned = rotated(turned, position);
  }
  query.insert(query.end(), turned.begin(), turned.end());
  return query;
}

Floats attend_to_latents(const LatentAttention& a, const Floats& q, const Floats& cache) {
  const size_t width = a.rank + a.rope, positions = cache.size() / width, q_dim = a.nope + a.rope;
  const size_t scaled = wrong("latents_width") ? width
                        : wrong("rank")        ? a.rank
                        : wrong("nope_alone")  ? a.nope
                        : wrong("no_scale")    ? 1
                                               : q_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(scaled));
  Floats y(a.n_heads * a.v_dim, 0.0F);
  for (size_t h = 0; h < a.n_heads; ++h) {
    const Floats own(q.data() + h * q_dim, q.data() + (h + 1) * q_dim);
    const Floats query = absorbed_query(a, h, own, wrong("next_position") ? positions : positions - 1);
    Floats weights(positions, 0.0F);
    for (size_t t = 0; t < positions; ++t) {
      for (size_t i = 0; i < (wrong("latents_alone") ? a.rank : width); ++i) {
        weights[t] += scale * query[i] * cache[t * width + i];
      }
    }
    const float largest = wrong("no_maximum") ? 0.0F : *std::max_element(weights.begin(), weights.end());
    float sum = 0.0F;
    for (float& weight : weights) sum += weight = std::exp(weight - largest);
    Floats latent(a.rank, 0.0F);
    for (size_t t = 0; t < positions; ++t) {
      for (size_t r = 0; r < a.rank; ++r) latent[r] += weights[t] / sum * cache[t * width + r];
    }
    const float* wv = a.wv.data() + (wrong("first_values") ? 0 : h * a.v_dim * a.rank);
    for (size_t v = 0; v < a.v_dim; ++v) {
      for (size_t r = 0; r < a.rank; ++r) {
        y[h * a.v_dim + v] += wv[wrong("values_transposed") ? r * a.v_dim + v : v * a.rank + r] * latent[r];
      }
    }
  }
  return y;
}

}  // namespace folio::exercises
