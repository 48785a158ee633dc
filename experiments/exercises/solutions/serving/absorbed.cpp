#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

Floats absorbed_query(const LatentAttention& a, size_t head, const Floats& q, size_t position) {
  const float* wk = a.wk.data() + head * a.nope * a.rank;
  Floats query(a.rank, 0.0F);
  for (size_t n = 0; n < a.nope; ++n) {
    for (size_t r = 0; r < a.rank; ++r) query[r] += wk[n * a.rank + r] * q[n];
  }
  const Floats turned = rotated({q.begin() + a.nope, q.end()}, position);
  query.insert(query.end(), turned.begin(), turned.end());
  return query;
}

Floats attend_to_latents(const LatentAttention& a, const Floats& q, const Floats& cache) {
  const size_t width = a.rank + a.rope, positions = cache.size() / width, q_dim = a.nope + a.rope;
  const float scale = 1.0F / std::sqrt(static_cast<float>(q_dim));
  Floats y(a.n_heads * a.v_dim, 0.0F);
  for (size_t h = 0; h < a.n_heads; ++h) {
    const Floats own(q.begin() + h * q_dim, q.begin() + (h + 1) * q_dim);
    const Floats query = absorbed_query(a, h, own, positions - 1);
    Floats weights(positions, 0.0F);
    for (size_t t = 0; t < positions; ++t) {
      for (size_t i = 0; i < width; ++i) weights[t] += scale * query[i] * cache[t * width + i];
    }
    const float largest = *std::max_element(weights.begin(), weights.end());
    float sum = 0.0F;
    for (float& w : weights) sum += w = std::exp(w - largest);
    Floats latent(a.rank, 0.0F);
    for (size_t t = 0; t < positions; ++t) {
      for (size_t r = 0; r < a.rank; ++r) latent[r] += weights[t] / sum * cache[t * width + r];
    }
    for (size_t v = 0; v < a.v_dim; ++v) {
      for (size_t r = 0; r < a.rank; ++r) y[h * a.v_dim + v] += a.wv[(h * a.v_dim + v) * a.rank + r] * latent[r];
    }
  }
  return y;
}

}  // namespace folio::exercises
