// Differentiable collectives. The backward pass of each is again a collective:
//
//                 forward                                     backward
//   gather        all-gather: concatenates the ranks' parts   reduce-scatter of the gradients
//   sum_scatter   reduce-scatter: each rank's part of a sum   all-gather of the gradients
//   exchange      all-to-all: rows to other ranks             all-to-all: gradients back to the rows' ranks
//
// All ranks of the group must call them in the same order, forward and backward.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/parallel/group.h"

namespace folio::train::parallel {

/// Differentiable all-gather, reduce-scatter and all-to-all, with the parameters of Group::gather(), sum_scatter() and
/// exchange(). The group must outlive the graph.
[[nodiscard]] torch::Tensor gather_rows(const torch::Tensor& x, int64_t dim, Group& group);
[[nodiscard]] torch::Tensor sum_scatter_rows(const torch::Tensor& x, int64_t dim, Group& group);
[[nodiscard]] torch::Tensor exchange_rows(const torch::Tensor& x, const std::vector<int64_t>& sent,
                                          const std::vector<int64_t>& received, Group& group);

}  // namespace folio::train::parallel
