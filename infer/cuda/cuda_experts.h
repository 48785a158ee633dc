// Device memory for the experts of a stage: the step's assignments of rows to experts, and the inputs and outputs of
// their products.
#pragma once

#include <array>
#include <cstddef>

#include "infer/cuda/device.h"
#include "infer/cuda/experts.h"

namespace folio::infer {

struct CudaExperts {
  gpu::Routing routing;       ///< n_experts is 0 for a model without experts
  gpu::DeviceMemory experts;  ///< the arrays of gpu::Assignments: experts and weights
  gpu::DeviceMemory weights;
  gpu::DeviceMemory groups;  ///< the arrays of gpu::Grouped: groups, assignments and counts
  gpu::DeviceMemory assignments;
  gpu::DeviceMemory counts;
  std::array<gpu::DeviceMemory, 4> packed;  ///< packed inputs of the products, by gpu::Kind
  gpu::DeviceMemory row_scales;
  gpu::DeviceMemory outs;  ///< outputs of the experts' down projections, (assignments, dim)

  [[nodiscard]] size_t assignments_of(size_t n_rows) const { return n_rows * routing.n_chosen; }
  [[nodiscard]] gpu::Assignments assigned() const { return {experts.as<int32_t>(), weights.as<float>()}; }
  /// Returns the assignments of a step of n_rows rows, grouped by expert.
  [[nodiscard]] gpu::Grouped grouped(size_t n_rows) const {
    gpu::Grouped g = gpu::group_sizes(assignments_of(n_rows), routing.n_experts);
    g.groups = groups.as<gpu::ExpertGroup>();
    g.assignments = assignments.as<int32_t>();
    g.counts = counts.as<uint32_t>();
    return g;
  }
};

}  // namespace folio::infer
