#include <cmath>
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

enum class Wrong { None, NoValueMatrix, ColumnsForRows, RowsTooShort, QueriesAndKeysSwapped, RootOfD, LooksAtTheEnd };

template <Wrong kWrong>
Floats projected(const Floats& x, const Floats& w, size_t T, size_t D) {
  const size_t K = w.size() / D;
  Floats y(T * K, 0.0F);
  for (size_t t = 0; t < T; ++t) {
    for (size_t i = 0; i < K; ++i) {
      for (size_t d = 0; d < D; ++d) {
        const bool columns = kWrong == Wrong::ColumnsForRows && K == D;
        const size_t at = columns ? d * D + i : kWrong == Wrong::RowsTooShort ? (i * K + d) % w.size() : i * D + d;
        y[t * K + i] += w[at] * x[t * D + d];
      }
    }
  }
  if (kWrong == Wrong::LooksAtTheEnd && T > 2) y[0] += x.back();
  return y;
}

template <Wrong kWrong>
Floats head_of(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D) {
  const size_t K = wq.size() / D;
  Floats q = projected<kWrong>(x, wq, T, D), k = projected<kWrong>(x, wk, T, D);
  if (kWrong == Wrong::QueriesAndKeysSwapped) std::swap(q, k);
  for (float& number : q)
    number *= kWrong == Wrong::RootOfD ? std::sqrt(static_cast<float>(K) / static_cast<float>(D)) : 1;
  return attend(q, k, kWrong == Wrong::NoValueMatrix && K == D ? x : projected<kWrong>(x, wv, T, D), T, K);
}

const std::vector<Mistake<decltype(head)>> kMistakes{
    {"no_value_matrix", "OnePositionGetsItsValue", "without wv", head_of<Wrong::NoValueMatrix>},
    {"columns_for_rows", "OnePositionGetsItsValue", "the columns of wv", head_of<Wrong::ColumnsForRows>},
    {"rows_too_short", "AMatrixNeedNotBeSquare", "not at i * K", head_of<Wrong::RowsTooShort>},
    {"queries_and_keys_swapped", "QueriesAskAndKeysAnswer", "mixed up", head_of<Wrong::QueriesAndKeysSwapped>},
    {"root_of_d", "TheRootIsThatOfTheHeadsWidth", "is 0.633975, but", head_of<Wrong::RootOfD>},
    {"looks_at_the_end", "ALaterPositionChangesNothing", "noticed it", head_of<Wrong::LooksAtTheEnd>},
};

}  // namespace

Floats head(const Floats& x, const Floats& wq, const Floats& wk, const Floats& wv, size_t T, size_t D) {
  return chosen(kMistakes, head_of<Wrong::None>)(x, wq, wk, wv, T, D);
}

}  // namespace folio::exercises
