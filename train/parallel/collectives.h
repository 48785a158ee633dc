// Collectives within a model. The backward pass of each is another of them, since what is gathered is used by all
// ranks, and each of them has a part of its gradient:
//
//                 forward                                     backward
//   gather        the ranks' parts, concatenated              the gradients' sum, of which each has its own part
//   sum_scatter   the sum, of which each has a part           the parts' gradients, concatenated
//   exchange      rows to the ranks that need them            their gradients, back to where they came from
//
// All ranks of the group call them in the same order, forward and backward.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "train/parallel/group.h"

namespace folio::train::parallel {

/// forward(), whose graph is not recorded. backward() maps the gradient of its result to those of `inputs`; it is
/// called once, and then released with all that it holds.
[[nodiscard]] torch::Tensor with_backward(
    at::TensorList inputs, const std::function<torch::Tensor()>& forward,
    std::function<std::vector<torch::Tensor>(const torch::Tensor& gradient)> backward);

/// Group::gather(), sum_scatter() and exchange() with backward passes. The group must outlive the graph.
[[nodiscard]] torch::Tensor gather_rows(const torch::Tensor& x, int64_t dim, Group& group);
[[nodiscard]] torch::Tensor sum_scatter_rows(const torch::Tensor& x, int64_t dim, Group& group);
[[nodiscard]] torch::Tensor exchange_rows(const torch::Tensor& x, const std::vector<int64_t>& sent,
                                          const std::vector<int64_t>& received, Group& group);

}  // namespace folio::train::parallel
