// What a stage on a GPU keeps of its experts: which rows of the step take which, and the inputs and outputs of their
// products.
#pragma once

#include <array>
#include <cstddef>

#include "infer/cuda/device.h"
#include "infer/cuda/experts.h"

namespace folio::infer {

struct CudaExperts {
  gpu::Routing routing;       ///< n_experts 0: the model has none
  gpu::DeviceMemory experts;  ///< gpu::Taken
  gpu::DeviceMemory weights;
  gpu::DeviceMemory groups;  ///< gpu::Grouped
  gpu::DeviceMemory takings;
  gpu::DeviceMemory counts;
  std::array<gpu::DeviceMemory, 4> packed;  ///< by gpu::Kind
  gpu::DeviceMemory row_scales;
  gpu::DeviceMemory outs;  ///< (takings, dim)

  [[nodiscard]] size_t takings_of(size_t n_rows) const { return n_rows * routing.n_chosen; }
  [[nodiscard]] gpu::Taken taken() const { return {experts.as<int32_t>(), weights.as<float>()}; }
  /// Of a step of so many rows.
  [[nodiscard]] gpu::Grouped grouped(size_t n_rows) const {
    gpu::Grouped g = gpu::group_sizes(takings_of(n_rows), routing.n_experts);
    g.groups = groups.as<gpu::ExpertGroup>();
    g.takings = takings.as<int32_t>();
    g.counts = counts.as<uint32_t>();
    return g;
  }
};

}  // namespace folio::infer
