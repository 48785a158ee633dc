#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

void take_block(Partial& partial, const Floats& scores, const Floats& values) {
  const size_t dim = values.size() / scores.size();
  partial.weighted.resize(dim, 0.0F);
  const float max = std::max(partial.max, *std::max_element(scores.begin(), scores.end()));
  if (std::isinf(max)) return;  // all scores so far are -infinity (masked)
  const float factor = std::exp(partial.max - max);
  partial.max = max;
  partial.sum *= factor;
  for (float& number : partial.weighted) number *= factor;
  for (size_t j = 0; j < scores.size(); ++j) {
    const float weight = std::exp(scores[j] - max);
    partial.sum += weight;
    for (size_t d = 0; d < dim; ++d) partial.weighted[d] += weight * values[j * dim + d];
  }
}

}  // namespace folio::exercises
