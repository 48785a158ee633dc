// Weights with an outlier in each group, and weights with nonzero group means.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensor_view.h"
#include "core/weights.h"

namespace folio::experiments {

/// Statistics of a matrix's groups of 32 values.
struct GroupShape {
  double largest = 0.0;     ///< the largest |w| / root mean square in a group
  double typical = 0.0;     ///< the largest |w| / root mean square of a group, averaged over groups
  double off_centre = 0.0;  ///< |mean| / standard deviation of a group, averaged over groups
};
[[nodiscard]] GroupShape shape_of(const std::vector<float>& values);

/// Sets the first value of each group to `size` times the root mean square of the others, and returns the others'
/// relative error after quantization to `type`.
[[nodiscard]] double error_beside_outliers(std::vector<float> values, double size, core::DType type);

/// Adds `shift` standard deviations to each group's values, and returns their error after quantization to `type` as a
/// fraction of the standard deviation.
[[nodiscard]] double error_of_shifted(std::vector<float> values, double shift, core::DType type);

/// Adds outliers without changing the model's function: in each feed-forward every 32nd row of w3 is divided by
/// `factor`, a power of two, and the matching column of w2 multiplied by it.
[[nodiscard]] core::Weights with_outliers(core::Weights weights, float factor);

}  // namespace folio::experiments
