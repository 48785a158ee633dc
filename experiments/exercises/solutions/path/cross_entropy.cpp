#include <algorithm>
#include <cmath>

#include "experiments/exercises/path/path.h"

namespace folio::exercises {

double cross_entropy(const Floats& logits, const std::vector<int32_t>& targets) {
  const size_t V = logits.size() / targets.size();
  double loss = 0.0;
  for (size_t t = 0; t < targets.size(); ++t) {
    const float* row = logits.data() + t * V;
    const double largest = *std::max_element(row, row + V);
    double sum = 0.0;
    for (size_t v = 0; v < V; ++v) sum += std::exp(row[v] - largest);
    loss += std::log(sum) - (row[targets[t]] - largest);
  }
  return loss / static_cast<double>(targets.size());
}

}  // namespace folio::exercises
