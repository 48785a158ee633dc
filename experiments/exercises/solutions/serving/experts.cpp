#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<Route> route(const Floats& logits, size_t n_chosen) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const float largest = logits[order[0]];
  order.resize(n_chosen);
  std::ranges::sort(order);
  std::vector<Route> routes;
  float sum = 0.0F;
  for (const size_t expert : order) {
    routes.push_back({expert, std::exp(logits[expert] - largest)});
    sum += routes.back().weight;
  }
  for (Route& r : routes) r.weight /= sum;
  return routes;
}

Floats combine(const Floats& x, size_t dim, const std::vector<std::vector<Route>>& routes, size_t n_experts,
               const RunExpert& run) {
  Floats y(x.size(), 0.0F);
  for (size_t expert = 0; expert < n_experts; ++expert) {
    Floats rows, weights;
    std::vector<size_t> whose;
    for (size_t i = 0; i < routes.size(); ++i) {
      for (const Route& r : routes[i]) {
        if (r.expert != expert) continue;
        rows.insert(rows.end(), x.begin() + i * dim, x.begin() + (i + 1) * dim);
        weights.push_back(r.weight);
        whose.push_back(i);
      }
    }
    if (whose.empty()) continue;
    const Floats out = run(expert, rows);
    for (size_t j = 0; j < whose.size(); ++j) {
      for (size_t d = 0; d < dim; ++d) y[whose[j] * dim + d] += weights[j] * out[j * dim + d];
    }
  }
  return y;
}

}  // namespace folio::exercises
