// The mistakes, each with the test that must fail first and words of its message:
//     no_relu: OneRankHasTheWholeLayer: is 8, but
//     no_bias: OneRankHasTheWholeLayer: is 6, but
//     transposed: MatricesLieRowByRow: w2 has rows of hidden numbers
//     everything: ARankHasItsShareAlone: 8 hidden numbers, 4 ranks
//     same_at_all: TheSumOfTwoIsTheLayer: the same hidden numbers
//     rows_of_w2: TheSumOfTwoIsTheLayer: in place of columns
//     bias_at_all: TheBiasIsInTheSumOnce: not at each rank
//     two_halves: TheSumOfFourIsTheLayer: in place of n_ranks
#include <algorithm>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

FeedForward part_of(const FeedForward& whole, size_t rank, size_t n_ranks) {
  if (wrong("everything")) return whole;
  const size_t h = whole.hidden / n_ranks;
  const size_t first = wrong("same_at_all") ? 0 : wrong("two_halves") ? (rank == 0 ? 0 : h) : rank * h;
  FeedForward part{.dim = whole.dim, .hidden = h, .w1 = {}, .w2 = {}, .bias = Floats(whole.dim, 0.0F)};
  part.w1.assign(whole.w1.data() + first * whole.dim, whole.w1.data() + (first + h) * whole.dim);
  for (size_t i = 0; i < whole.dim; ++i) {
    const float* row =
        whole.w2.data() + (wrong("rows_of_w2") ? rank * h * whole.dim + i * h : i * whole.hidden + first);
    part.w2.insert(part.w2.end(), row, row + h);
  }
  if (rank == 0 || wrong("bias_at_all")) part.bias = whole.bias;
  return part;
}

Floats output_of(const FeedForward& layer, const Floats& x) {
  Floats y = wrong("no_bias") ? Floats(layer.dim, 0.0F) : layer.bias;
  for (size_t j = 0; j < layer.hidden; ++j) {
    float sum = 0.0F;
    for (size_t d = 0; d < layer.dim; ++d) sum += layer.w1[j * layer.dim + d] * x[d];
    if (!wrong("no_relu")) sum = std::max(sum, 0.0F);
    for (size_t i = 0; i < layer.dim; ++i) {
      y[i] += layer.w2[wrong("transposed") ? j * layer.dim + i : i * layer.hidden + j] * sum;
    }
  }
  return y;
}

}  // namespace folio::exercises
