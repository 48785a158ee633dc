// Cosines and sines of RoPE's angles. The table grows with the positions in use, because a table for a model's full
// context length might not fit in memory.
#pragma once

#include <cstddef>
#include <vector>

#include "core/aligned_vector.h"
#include "core/model_config.h"

namespace folio::infer {

class RopeTable {
 public:
  /// Extends the table to positions [0, n_positions), at least doubling it, up to context_length. Angles are computed
  /// in double. `frequencies` has each pair's radians per position. `magnitude` multiplies all cosines and sines.
  void extend(const core::ModelConfig& config, size_t n_positions, const std::vector<double>& frequencies,
              float magnitude);

  /// Returns a position's factors for Kernels::rope, one for each rotated dimension of a head. Sines are negated for
  /// the first element of a pair.
  [[nodiscard]] const float* cos(size_t position) const { return &cos_[position * dims_]; }
  [[nodiscard]] const float* sin(size_t position) const { return &sin_[position * dims_]; }

 private:
  size_t dims_ = 0;
  core::AlignedVector<float> cos_;  ///< (positions, rotated dimensions)
  core::AlignedVector<float> sin_;  ///< (positions, rotated dimensions)
};

}  // namespace folio::infer
