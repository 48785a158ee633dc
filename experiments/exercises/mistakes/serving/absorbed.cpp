#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class WrongLatent {
  None,
  Transposed,
  RotationAbsorbed,
  WholeQuery,
  LatentRotated,
  FirstMatrix,
  LatentsWidth,
  Rank,
  NopeAlone,
  NoScale,
  LatentsAlone,
  NextPosition,
  ValuesTransposed,
  FirstValues
};
using LatentMistake = WrongLatent();

template <WrongLatent kWrong>
WrongLatent this_latent() {
  return kWrong;
}

const std::vector<Mistake<LatentMistake>> kLatentMistakes{
    {"transposed", "TheKeysMatrixMovesToTheQuery", "is 21, but", this_latent<WrongLatent::Transposed>},
    {"rotation_absorbed", "TheOtherPartIsRotated", "cannot be absorbed", this_latent<WrongLatent::RotationAbsorbed>},
    {"whole_query", "TheOtherPartIsRotated", "is 0.99995, but", this_latent<WrongLatent::WholeQuery>},
    {"latent_rotated", "LatentsAreNotRotated", "has no rotation", this_latent<WrongLatent::LatentRotated>},
    {"first_matrix", "AHeadHasItsOwnMatrix", "begins at head * nope * rank", this_latent<WrongLatent::FirstMatrix>},
    {"latents_width", "TheScaleIsThatOfThePlainForm", "is 2.73999, but", this_latent<WrongLatent::LatentsWidth>},
    {"rank", "TheScaleIsThatOfThePlainForm", "is 2.84134, but", this_latent<WrongLatent::Rank>},
    {"nope_alone", "TheScaleIsThatOfThePlainForm", "is 3.30177, but", this_latent<WrongLatent::NopeAlone>},
    {"no_scale", "TheScaleIsThatOfThePlainForm", "is 3.6, but", this_latent<WrongLatent::NoScale>},
    {"latents_alone", "RotatedPartsHaveAShareInTheScore", "is 2, but", this_latent<WrongLatent::LatentsAlone>},
    {"next_position", "RotatedPartsHaveAShareInTheScore", "positions - 1", this_latent<WrongLatent::NextPosition>},
    {"values_transposed", "TheValuesMatrixComesLast", "is 111, but", this_latent<WrongLatent::ValuesTransposed>},
    {"first_values", "AbsorbedEqualsPlain", "the first head's W_v", this_latent<WrongLatent::FirstValues>},
};

WrongLatent wrong_latent() { return chosen(kLatentMistakes, this_latent<WrongLatent::None>)(); }

}  // namespace

Floats absorbed_query(const LatentAttention& a, size_t head, const Floats& q, size_t position) {
  const WrongLatent w = wrong_latent();
  const float* wk = a.wk.data() + (w == WrongLatent::FirstMatrix ? 0 : head * a.nope * a.rank);
  Floats query(a.rank, 0.0F);
  for (size_t n = 0; n < a.nope; ++n) {
    for (size_t r = 0; r < a.rank; ++r) {
      query[r] += wk[w == WrongLatent::Transposed ? r * a.nope + n : n * a.rank + r] * q[n];
    }
  }
  if (w == WrongLatent::LatentRotated) query = rotated(query, position);
  Floats turned(q.begin() + static_cast<std::ptrdiff_t>(a.nope), q.end());
  if (w == WrongLatent::WholeQuery) {
    const Floats whole = rotated(q, position);
    turned.assign(whole.begin() + static_cast<std::ptrdiff_t>(a.nope), whole.end());
  } else if (w != WrongLatent::RotationAbsorbed) {
    turned = rotated(turned, position);
  }
  query.insert(query.end(), turned.begin(), turned.end());
  return query;
}

Floats attend_to_latents(const LatentAttention& a, const Floats& q, const Floats& cache) {
  const WrongLatent wrong = wrong_latent();
  const size_t width = a.rank + a.rope, positions = cache.size() / width, q_dim = a.nope + a.rope;
  const size_t scaled = wrong == WrongLatent::LatentsWidth ? width
                        : wrong == WrongLatent::Rank       ? a.rank
                        : wrong == WrongLatent::NopeAlone  ? a.nope
                        : wrong == WrongLatent::NoScale    ? 1
                                                           : q_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(scaled));
  Floats y(a.n_heads * a.v_dim, 0.0F);
  for (size_t h = 0; h < a.n_heads; ++h) {
    const Floats own(q.data() + h * q_dim, q.data() + (h + 1) * q_dim);
    const Floats query = absorbed_query(a, h, own, wrong == WrongLatent::NextPosition ? positions : positions - 1);
    Floats weights(positions, 0.0F);
    for (size_t t = 0; t < positions; ++t) {
      for (size_t i = 0; i < (wrong == WrongLatent::LatentsAlone ? a.rank : width); ++i) {
        weights[t] += scale * query[i] * cache[t * width + i];
      }
    }
    const float largest = *std::max_element(weights.begin(), weights.end());
    float sum = 0.0F;
    for (float& weight : weights) sum += weight = std::exp(weight - largest);
    Floats latent(a.rank, 0.0F);
    for (size_t t = 0; t < positions; ++t) {
      for (size_t r = 0; r < a.rank; ++r) latent[r] += weights[t] / sum * cache[t * width + r];
    }
    const float* wv = a.wv.data() + (wrong == WrongLatent::FirstValues ? 0 : h * a.v_dim * a.rank);
    for (size_t v = 0; v < a.v_dim; ++v) {
      for (size_t r = 0; r < a.rank; ++r) {
        y[h * a.v_dim + v] += wv[wrong == WrongLatent::ValuesTransposed ? r * a.v_dim + v : v * a.rank + r] * latent[r];
      }
    }
  }
  return y;
}

}  // namespace folio::exercises
