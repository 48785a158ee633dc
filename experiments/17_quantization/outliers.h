// Measures the quantization error of groups of 32 values that have an outlier or a nonzero mean.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensor_view.h"
#include "core/weights.h"

namespace folio::experiments {

/// Statistics of a matrix's groups of 32 values.
struct GroupShape {
  double largest = 0.0;     ///< maximum over groups of max |w| / root mean square
  double typical = 0.0;     ///< mean over groups of max |w| / root mean square
  double off_centre = 0.0;  ///< mean over groups of |mean| / standard deviation
};
[[nodiscard]] GroupShape shape_of(const std::vector<float>& values);

/// Sets the first value of each group of 32 to `size` times the root mean square of the other 31, quantizes to `type`,
/// and returns the relative error of the other values of all groups.
[[nodiscard]] double error_beside_outliers(std::vector<float> values, double size, core::DType type);

/// Normalizes each group of 32 to standard deviation 1 and mean `shift`, quantizes to `type`, and returns the root mean
/// square error, in standard deviations.
[[nodiscard]] double error_of_shifted(std::vector<float> values, double shift, core::DType type);

/// Returns weights with outliers in w2 that compute the same function: in each layer, every 32nd row of w3 is divided
/// by `factor`, a power of two, and the matching column of w2 is multiplied by it.
[[nodiscard]] core::Weights with_outliers(core::Weights weights, float factor);

}  // namespace folio::experiments
