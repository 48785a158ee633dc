#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class WrongExperts {
  None,
  Smallest,
  ByLogit,
  LastOfEquals,
  OfAll,
  NoExp,
  AllAlike,
  Infinite,
  NoWeights,
  LastAlone,
  FirstRows,
  RowByRow,
  WithoutRows,
  Capacity
};
using ExpertsMistake = WrongExperts();

template <WrongExperts kWrong>
WrongExperts this_one() {
  return kWrong;
}

const std::vector<Mistake<ExpertsMistake>> kExpertsMistakes{
    {"smallest", "TheLargestLogitsAreChosen", "5 and 3, the largest", this_one<WrongExperts::Smallest>},
    {"by_logit", "TheyComeInTheOrderOfTheirNumbers", "sort the chosen by number", this_one<WrongExperts::ByLogit>},
    {"last_of_equals", "OfEqualLogitsTheFirstIsChosen", "not stable", this_one<WrongExperts::LastOfEquals>},
    {"of_all", "WeightsSumToOne", "is 0.880797, but", this_one<WrongExperts::OfAll>},
    {"no_exp", "WeightsAreOfASoftmax", "is 0.613147, but", this_one<WrongExperts::NoExp>},
    {"all_alike", "WeightsAreOfASoftmax", "is 0.5, but", this_one<WrongExperts::AllAlike>},
    {"infinite", "LargeLogitsStayFinite", "infinite / infinite", this_one<WrongExperts::Infinite>},
    {"no_weights", "ARowIsTheWeightedSumOfItsExperts", "is 4, but", this_one<WrongExperts::NoWeights>},
    {"last_alone", "ARowIsTheWeightedSumOfItsExperts", "is 2.25, but", this_one<WrongExperts::LastAlone>},
    {"first_rows", "EachRowGetsItsOwnOutput", "not the first ones of x", this_one<WrongExperts::FirstRows>},
    {"row_by_row", "AnExpertIsRunOnceOnAllOfItsRows", "run it once", this_one<WrongExperts::RowByRow>},
    {"without_rows", "AnExpertThatNobodyChoseIsNotRun", "was run without a row", this_one<WrongExperts::WithoutRows>},
    {"capacity", "NoRowIsDropped", "a fixed number of rows", this_one<WrongExperts::Capacity>},
};

WrongExperts wrong_experts() { return chosen(kExpertsMistakes, this_one<WrongExperts::None>)(); }

}  // namespace

std::vector<Route> route(const Floats& logits, size_t n_chosen) {
  const WrongExperts w = wrong_experts();
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    if (w == WrongExperts::Smallest) return logits[a] < logits[b];
    if (logits[a] == logits[b]) return w == WrongExperts::LastOfEquals && a > b;
    return logits[a] > logits[b];
  });
  const float largest = w == WrongExperts::Infinite ? 0.0F : logits[order[0]];
  float sum_of_all = 0.0F;
  for (const float logit : logits) sum_of_all += std::exp(logit - largest);
  order.resize(n_chosen);
  if (w != WrongExperts::ByLogit) std::ranges::sort(order);
  std::vector<Route> routes;
  float sum = 0.0F;
  for (const size_t expert : order) {
    const float weight = w == WrongExperts::NoExp      ? logits[expert]
                         : w == WrongExperts::AllAlike ? 1.0F
                                                       : std::exp(logits[expert] - largest);
    routes.push_back({expert, weight});
    sum += weight;
  }
  for (Route& r : routes) r.weight /= w == WrongExperts::OfAll ? sum_of_all : sum;
  return routes;
}

Floats combine(const Floats& x, size_t dim, const std::vector<std::vector<Route>>& routes, size_t n_experts,
               const RunExpert& run) {
  const WrongExperts w = wrong_experts();
  Floats y(x.size(), 0.0F);
  const auto add = [&](size_t row, const float* out, float weight) {
    for (size_t d = 0; d < dim; ++d) {
      float& sum = y[row * dim + d];
      const float part = w == WrongExperts::NoWeights ? out[d] : weight * out[d];
      sum = w == WrongExperts::LastAlone ? part : sum + part;
    }
  };
  const size_t room = w == WrongExperts::Capacity ? std::max<size_t>(3, routes.size() / n_experts) : routes.size();
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
    if (w == WrongExperts::RowByRow) {
      for (size_t j = 0; j < whose.size(); ++j) {
        const Floats out = run(expert, {rows.data() + j * dim, rows.data() + (j + 1) * dim});
        add(whose[j], out.data(), weights[j]);
      }
      continue;
    }
    if (whose.empty() && w != WrongExperts::WithoutRows) continue;
    const Floats out = run(expert, rows);
    for (size_t j = 0; j < whose.size(); ++j) {
      add(w == WrongExperts::FirstRows ? j : whose[j], out.data() + j * dim, weights[j]);
    }
  }
  return y;
}

}  // namespace folio::exercises
