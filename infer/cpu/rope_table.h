// Cosines and sines of RoPE's angles, for as many positions as were used so far: a file may promise a context that no
// memory holds.
#pragma once

#include <cstddef>
#include <vector>

#include "core/aligned_vector.h"
#include "core/model_config.h"

namespace folio::infer {

class RopeTable {
 public:
  /// Computes the angles of positions [0, n_positions) in double, if they are not there yet; doubles each time.
  /// `frequencies` are those of core::rope_frequencies or local_rope_frequencies; `magnitude` is rope_magnitude's,
  /// or 1.
  void extend(const core::ModelConfig& config, size_t n_positions, const std::vector<double>& frequencies,
              float magnitude);

  /// Of one position: (rotated numbers of a head); sines are negative at the first number of a pair, as
  /// kernels::Kernels::rope takes them.
  [[nodiscard]] const float* cos(size_t position) const { return &cos_[position * dims_]; }
  [[nodiscard]] const float* sin(size_t position) const { return &sin_[position * dims_]; }

 private:
  size_t dims_ = 0;
  core::AlignedVector<float> cos_;  ///< (positions, rotated numbers)
  core::AlignedVector<float> sin_;  ///< (positions, rotated numbers)
};

}  // namespace folio::infer
