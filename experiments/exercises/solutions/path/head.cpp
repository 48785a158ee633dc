#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

// Returns (T, K): row t is w times row t of x.
Floats project(const Floats& x, const Floats& w, size_t T, size_t D) {
  const size_t K = w.size() / D;
  Floats y(T * K, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t i = 0; i < K; ++i) {
      for (size_t d = 0; d < D; ++d) y[t * K + i] += w[i * D + d] * x[t * D + d];
    }
  }
  return y;
}

}  // namespace

Floats head(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D) {
  return attend(project(x, wq, T, D), project(x, wk, T, D), project(x, wv, T, D), T, wq.size() / D);
}

}  // namespace folio::exercises
