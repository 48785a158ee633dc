// Between rungs 1 and 2: what a tensor is, on tables that fit on the screen. Rung 1's counting is written again without
// loops, and then the same table is found by gradients: all that rung 2 does on 65 characters, here on two.
// Shapes: V characters, N pairs of a character and the one that came after it. A tensor's name ends with its shape.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include "experiments/growing/01_counts.h"

namespace folio::growing {

using torch::Tensor;

// A word as pairs: what stands there, and what came next. "noon" has three: no, oo, on.
struct Pairs {
  Tensor first_N, next_N;  // the characters' numbers
};
inline Pairs pairs_of(Text word) {
  const Tensor all = torch::tensor(std::vector<int64_t>(word.begin(), word.end()));
  return {all.slice(0, 0, -1), all.slice(0, 1)};  // all but the last, all but the first
}

// How often each pair occurs: the table of rung 1.
inline Tensor count(const Pairs& pairs, int64_t V) {
  const Tensor times_VV = torch::zeros({V, V});
  for (int64_t n = 0; n < pairs.first_N.size(0); ++n) times_VV[pairs.first_N[n]][pairs.next_N[n]] += 1;
  return times_VV;
}

// Broadcasting: [V, V] is divided by [V, 1], whose only column is taken for all V columns. So each row is divided by
// its own sum, and its shares have the sum 1.
inline Tensor shares(const Tensor& times_VV) {
  const Tensor sum_V1 = times_VV.sum(1, /*keepdim=*/true);  // over dimension 1, the columns, which stays, of size 1
  return times_VV / sum_V1;
}

// Without keepdim the sums are [V], and [V, V] / [V] stretches them the other way: *column* w is divided by the sum of
// row w. The shapes fit, so nothing complains.
inline Tensor wrong_shares(const Tensor& times_VV) { return times_VV / times_VV.sum(1); }

// One row of the table for each pair, [N, V]: the row of the character that stands there.
inline Tensor rows(const Tensor& table_VV, const Pairs& pairs) { return torch::embedding(table_VV, pairs.first_N); }

// gather takes one number from each row, here that of the character that came. Its indices need as many dimensions as
// the table has, so unsqueeze makes [N, 1] of [N], and squeeze takes the 1 away again.
inline Tensor picked(const Tensor& rows_NV, const Pairs& pairs) {
  return rows_NV.gather(1, pairs.next_N.unsqueeze(1)).squeeze(1);
}

// The mean of -ln p(the character that came): the loss of rung 1.
inline Tensor loss_of_shares(const Tensor& shares_VV, const Pairs& pairs) {
  return -picked(rows(shares_VV, pairs), pairs).log().mean();  // mean() of all: no dimension is left, one number
}

// The same of logits, any numbers: softmax makes shares of each row.
inline Tensor loss_of_logits(const Tensor& logits_VV, const Pairs& pairs) {
  return loss_of_shares(logits_VV.softmax(1), pairs);
}

// One step of gradient descent. backward() adds the gradients to what grad() has, so it is emptied first; and the step
// itself is not part of the loss, so autograd must not record it.
inline void step(Tensor& logits_VV, const Pairs& pairs, double rate) {
  if (logits_VV.grad().defined()) logits_VV.mutable_grad().zero_();
  loss_of_logits(logits_VV, pairs).backward();
  const torch::NoGradGuard no_grad;
  logits_VV.sub_(rate * logits_VV.grad());  // a name that ends with _ changes the tensor itself
}

}  // namespace folio::growing
