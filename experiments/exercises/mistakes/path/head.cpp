// The mistakes, each with the test that must fail first and words of its message:
//     no_value_matrix: OnePositionGetsItsValue: without wv
//     columns_for_rows: OnePositionGetsItsValue: the columns of wv
//     rows_too_short: AMatrixNeedNotBeSquare: not at i * K
//     queries_and_keys_swapped: QueriesAskAndKeysAnswer: mixed up
//     root_of_d: TheRootIsThatOfTheHeadsWidth: is 0.633975, but
//     looks_at_the_end: ALaterPositionChangesNothing: noticed it
#include <cmath>
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

Floats projected(const Floats& x, const Floats& w, size_t T, size_t D) {
  const size_t K = w.size() / D;
  Floats y(T * K, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t i = 0; i < K; ++i) {
      for (size_t d = 0; d < D; ++d) {
        const bool columns = wrong("columns_for_rows") && K == D;
        const size_t at = columns ? d * D + i : wrong("rows_too_short") ? (i * K + d) % w.size() : i * D + d;
        y[t * K + i] += w[at] * x[t * D + d];
      }
    }
  }
  if (wrong("looks_at_the_end") && T > 2) y[0] += x.back();
  return y;
}

}  // namespace

Floats head(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D) {
  const size_t K = wq.size() / D;
  Floats q = projected(x, wq, T, D), k = projected(x, wk, T, D);
  if (wrong("queries_and_keys_swapped")) std::swap(q, k);
  for (float& number : q) number *= wrong("root_of_d") ? std::sqrt(static_cast<float>(K) / static_cast<float>(D)) : 1;
  return attend(q, k, wrong("no_value_matrix") && K == D ? x : projected(x, wv, T, D), T, K);
}

}  // namespace folio::exercises
