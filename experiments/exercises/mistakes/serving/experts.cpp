// The mistakes, each with the test that must fail first and words of its message:
//     smallest: TheLargestLogitsAreChosen: 5 and 3, the largest
//     by_logit: TheyComeInTheOrderOfTheirNumbers: sort the chosen by number
//     last_of_equals: OfEqualLogitsTheFirstIsChosen: not stable
//     unstable_sort: OfEqualLogitsTheFirstIsChosen: std::stable_sort
//     of_all: WeightsSumToOne: is 0.880797, but
//     no_exp: WeightsAreOfASoftmax: is 0.613147, but
//     all_alike: WeightsAreOfASoftmax: is 0.5, but
//     infinite: LargeLogitsStayFinite: infinite / infinite
//     no_weights: ARowIsTheWeightedSumOfItsExperts: is 4, but
//     last_alone: ARowIsTheWeightedSumOfItsExperts: is 2.25, but
//     first_rows: EachRowGetsItsOwnOutput: not the first ones of x
//     row_by_row: AnExpertIsRunOnceOnAllOfItsRows: run it once
//     without_rows: AnExpertThatNobodyChoseIsNotRun: was run without a row
//     capacity: NoRowIsDropped: a fixed number of rows
#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<Route> route(const Floats& logits, size_t n_chosen) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto before = [&](size_t a, size_t b) {
    if (wrong("smallest")) return logits[a] < logits[b];
    if (logits[a] == logits[b]) return wrong("last_of_equals") && a > b;
    return logits[a] > logits[b];
  };
  if (wrong("unstable_sort")) {
    std::ranges::sort(order, before);
  } else {
    std::ranges::stable_sort(order, before);
  }
  const float largest = wrong("infinite") ? 0.0F : logits[order[0]];
  float sum_of_all = 0.0F;
  for (const float logit : logits) sum_of_all += std::exp(logit - largest);
  order.resize(n_chosen);
  if (!wrong("by_logit")) std::ranges::sort(order);
  std::vector<Route> routes;
  float sum = 0.0F;
  for (const size_t expert : order) {
    const float weight = wrong("no_exp")      ? logits[expert]
                         : wrong("all_alike") ? 1.0F
                                              : std::exp(logits[expert] - largest);
    routes.push_back({expert, weight});
    sum += weight;
  }
  for (Route& r : routes) r.weight /= wrong("of_all") ? sum_of_all : sum;
  return routes;
}

Floats combine(const Floats& x, size_t dim, const std::vector<std::vector<Route>>& routes, size_t n_experts,
               const RunExpert& run) {
  Floats y(x.size(), 0.0F);
  const auto add = [&](size_t row, const float* out, float weight) {
    for (size_t d = 0; d < dim; ++d) {
      float& sum = y[row * dim + d];
      const float part = wrong("no_weights") ? out[d] : weight * out[d];
      sum = wrong("last_alone") ? part : sum + part;
    }
  };
  const size_t room = wrong("capacity") ? std::max<size_t>(3, routes.size() / n_experts) : routes.size();
  for (size_t expert = 0; expert < n_experts; ++expert) {
    Floats rows, weights;
    std::vector<size_t> whose;
    for (size_t i = 0; i < routes.size(); ++i) {
      for (const Route& r : routes[i]) {
        if (r.expert != expert || whose.size() == room) continue;
        rows.insert(rows.end(), x.data() + i * dim, x.data() + (i + 1) * dim);
        weights.push_back(r.weight);
        whose.push_back(i);
      }
    }
    if (wrong("row_by_row")) {
      for (size_t j = 0; j < whose.size(); ++j) {
        const Floats out = run(expert, {rows.data() + j * dim, rows.data() + (j + 1) * dim});
        add(whose[j], out.data(), weights[j]);
      }
      continue;
    }
    if (whose.empty() && !wrong("without_rows")) continue;
    const Floats out = run(expert, rows);
    for (size_t j = 0; j < whose.size(); ++j) {
      add(wrong("first_rows") ? j : whose[j], out.data() + j * dim, weights[j]);
    }
  }
  return y;
}

}  // namespace folio::exercises
