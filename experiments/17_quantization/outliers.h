// Weights with an outlier in each group, and weights whose groups are off-centre.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensor_view.h"
#include "core/weights.h"

namespace folio::experiments {

/// How a matrix's groups of 32 numbers look.
struct GroupShape {
  double largest = 0.0;     ///< the largest |w| / root mean square of a group's numbers
  double typical = 0.0;     ///< its mean over the groups
  double off_centre = 0.0;  ///< the mean of |mean| / standard deviation of a group
};
[[nodiscard]] GroupShape shape_of(const std::vector<float>& values);

/// With the first number of each group set to `size` times the root mean square of the others: the relative error of
/// the others after they went through `type`.
[[nodiscard]] double error_beside_outliers(std::vector<float> values, double size, core::DType type);

/// With `shift` standard deviations added to each group's numbers: their error after they went through `type`, as a
/// share of the standard deviation.
[[nodiscard]] double error_of_shifted(std::vector<float> values, double shift, core::DType type);

/// The same function with other weights: in each feed-forward every 32nd row of w3 is divided by `factor`, a power of
/// two, and the column of w2 that meets its result is multiplied by it.
[[nodiscard]] core::Weights with_outliers(core::Weights weights, float factor);

}  // namespace folio::experiments
