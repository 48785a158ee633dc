#include <algorithm>
#include <cmath>

#include "experiments/exercises/path/path.h"

namespace folio::exercises {

Floats average_by_loop(const Floats& x, size_t T, size_t D) {
  Floats y(T * D, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t s = 0; s <= t; ++s) {
      for (size_t d = 0; d < D; ++d) y[t * D + d] += x[s * D + d] / static_cast<float>(t + 1);
    }
  }
  return y;
}

Floats average_weights(size_t T) {
  Floats w(T * T, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t s = 0; s <= t; ++s) w[t * T + s] = 1.0F / static_cast<float>(t + 1);
  }
  return w;
}

Floats causal_softmax(const Floats& scores, size_t T) {
  Floats w(T * T, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    const float* row = scores.data() + t * T;
    const float largest = *std::max_element(row, row + t + 1);
    float sum = 0.0F;
    for (size_t s = 0; s <= t; ++s) sum += w[t * T + s] = std::exp(row[s] - largest);
    for (size_t s = 0; s <= t; ++s) w[t * T + s] /= sum;
  }
  return w;
}

Floats attend(const Floats& q, const Floats& k, const Floats& v, size_t T, size_t K) {
  const size_t D = v.size() / T;
  Floats scores(T * T, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t s = 0; s < T; ++s) {
      for (size_t i = 0; i < K; ++i) scores[t * T + s] += q[t * K + i] * k[s * K + i];
      scores[t * T + s] /= std::sqrt(static_cast<float>(K));
    }
  }
  const Floats w = causal_softmax(scores, T);
  Floats y(T * D, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t s = 0; s <= t; ++s) {
      for (size_t d = 0; d < D; ++d) y[t * D + d] += w[t * T + s] * v[s * D + d];
    }
  }
  return y;
}

}  // namespace folio::exercises
