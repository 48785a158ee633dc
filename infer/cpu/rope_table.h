// Cosines and sines of RoPE's angles, for as many positions as were used so far: a file may promise a context that no
// memory holds.
#pragma once

#include <cstddef>

#include "core/model_config.h"
#include "core/aligned_vector.h"

namespace folio::infer {

class RopeTable {
 public:
  /// Computes the angles of positions [0, n_positions) in double, if they are not there yet; doubles each time.
  void extend(const core::ModelConfig& config, size_t n_positions);

  /// Of one position: (head_dim); sines are negative at the first number of a pair, as kernels::Kernels::rope takes
  /// them.
  [[nodiscard]] const float* cos(size_t position) const { return &cos_[position * head_dim_]; }
  [[nodiscard]] const float* sin(size_t position) const { return &sin_[position * head_dim_]; }

 private:
  size_t head_dim_ = 0;
  core::AlignedVector<float> cos_;  ///< (positions, head_dim)
  core::AlignedVector<float> sin_;  ///< (positions, head_dim)
};

}  // namespace folio::infer
