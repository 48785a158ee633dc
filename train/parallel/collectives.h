// What ranks send each other in the middle of a model. Each of these functions has another of them as its backward
// pass, since what is gathered is used by all ranks, and each of them has a part of its gradient:
//
//                 forward                                     backward
//   gather        the ranks' parts, behind each other         the gradients' sum, of which each has its own part
//   sum_scatter   the sum, of which each has a part           the parts' gradients, behind each other
//   exchange      rows to the ranks that need them            their gradients, back to where they came from
//
// All ranks of the group call them in the same order, forward and backward.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/parallel/group.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace folio::train::parallel {

/// x of all ranks, of one shape, behind each other along dim.
[[nodiscard]] torch::Tensor gather_rows(const torch::Tensor& x, int64_t dim, Group& group);

/// Of the sum of all ranks' x, cut along dim into as many equal parts as there are ranks, this rank's.
[[nodiscard]] torch::Tensor sum_scatter_rows(const torch::Tensor& x, int64_t dim, Group& group);

/// Rows of x [sum of sent, …]: the first sent[0] go to rank 0, and so on. What comes, in the order of the ranks, of
/// which received[i] from rank i.
[[nodiscard]] torch::Tensor exchange_rows(const torch::Tensor& x, const std::vector<int64_t>& sent,
                                          const std::vector<int64_t>& received, Group& group);

/// For functions with a backward pass that sends: the group, which has to outlive the graph.
void save_group(torch::autograd::AutogradContext& context, Group& group);
[[nodiscard]] Group& saved_group(torch::autograd::AutogradContext& context);

}  // namespace folio::train::parallel
