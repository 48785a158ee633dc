// An introduction to tensors. Computes the bigram table of 01_counts.h and its loss by operations on whole tensors,
// then learns the same table by gradient descent.
// Shapes: V characters, N pairs of consecutive characters. A tensor's name ends with its shape.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include "experiments/growing/01_counts.h"

namespace folio::growing {

using torch::Tensor;

// The pairs of consecutive characters in a word. "noon" has three: no, oo, on.
struct Pairs {
  Tensor first_N, next_N;  // ids of the first and of the next characters
};
inline Pairs pairs_of(Text word) {
  const Tensor all = torch::tensor(std::vector<int64_t>(word.begin(), word.end()));
  return {all.slice(0, 0, -1), all.slice(0, 1)};  // all characters except the last, and all except the first
}

// Returns how often each pair occurs, the table of rung 1.
inline Tensor count(const Pairs& pairs, int64_t V) {
  const Tensor times_VV = torch::zeros({V, V});
  for (int64_t n = 0; n < pairs.first_N.size(0); ++n) times_VV[pairs.first_N[n]][pairs.next_N[n]] += 1;
  return times_VV;
}

// Returns each row divided by its sum. Broadcasting: dividing [V, V] by [V, 1] repeats the only column V times, so that
// every row of the result sums to 1.
inline Tensor shares(const Tensor& times_VV) {
  const Tensor sum_V1 = times_VV.sum(1, /*keepdim=*/true);  // over dimension 1 (columns), kept with size 1
  return times_VV / sum_V1;
}

// Shows a common mistake: without keepdim the sums are [V], and [V, V] / [V] broadcasts along rows instead, so *column*
// w is divided by the sum of row w. The shapes are compatible, so there is no error.
inline Tensor wrong_shares(const Tensor& times_VV) { return times_VV / times_VV.sum(1); }

// Returns the table's row for each pair's first character, [N, V].
inline Tensor rows(const Tensor& table_VV, const Pairs& pairs) { return torch::embedding(table_VV, pairs.first_N); }

// Returns the element of each row for the pair's next character, [N]. The index of gather needs as many dimensions as
// its input: unsqueeze turns [N] into [N, 1], and squeeze removes that dimension again.
inline Tensor picked(const Tensor& rows_NV, const Pairs& pairs) {
  return rows_NV.gather(1, pairs.next_N.unsqueeze(1)).squeeze(1);
}

// Returns the mean of -ln p(next character), the loss of rung 1.
inline Tensor loss_of_shares(const Tensor& shares_VV, const Pairs& pairs) {
  return -picked(rows(shares_VV, pairs), pairs).log().mean();  // mean() over all dimensions: a scalar
}

// Returns the mean of -ln p(next character) for logits: softmax turns each row of logits into probabilities.
inline Tensor loss_of_logits(const Tensor& logits_VV, const Pairs& pairs) {
  return loss_of_shares(logits_VV.softmax(1), pairs);
}

// Makes one step of gradient descent. backward() adds to grad(), so grad() is zeroed first. The update is not part of
// the loss, so NoGradGuard excludes it from autograd.
inline void step(Tensor& logits_VV, const Pairs& pairs, double rate) {
  if (logits_VV.grad().defined()) logits_VV.mutable_grad().zero_();
  loss_of_logits(logits_VV, pairs).backward();
  const torch::NoGradGuard no_grad;
  logits_VV.sub_(rate * logits_VV.grad());  // a name that ends with _ modifies the tensor in place
}

}  // namespace folio::growing
