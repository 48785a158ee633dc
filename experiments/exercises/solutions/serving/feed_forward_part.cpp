#include <algorithm>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

FeedForward part_of(const FeedForward& whole, size_t rank, size_t n_ranks) {
  const size_t h = whole.hidden / n_ranks, first = rank * h;
  FeedForward part{.dim = whole.dim, .hidden = h, .w1 = {}, .w2 = {}, .bias = Floats(whole.dim, 0.0F)};
  part.w1.assign(whole.w1.begin() + first * whole.dim, whole.w1.begin() + (first + h) * whole.dim);
  for (size_t i = 0; i < whole.dim; ++i) {
    const auto row = whole.w2.begin() + i * whole.hidden + first;
    part.w2.insert(part.w2.end(), row, row + h);
  }
  if (rank == 0) part.bias = whole.bias;
  return part;
}

Floats output_of(const FeedForward& layer, const Floats& x) {
  Floats y = layer.bias;
  for (size_t j = 0; j < layer.hidden; ++j) {
    float sum = 0.0F;
    for (size_t d = 0; d < layer.dim; ++d) sum += layer.w1[j * layer.dim + d] * x[d];
    sum = std::max(sum, 0.0F);
    for (size_t i = 0; i < layer.dim; ++i) y[i] += layer.w2[i * layer.hidden + j] * sum;
  }
  return y;
}

}  // namespace folio::exercises
