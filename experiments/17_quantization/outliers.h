// Measures the quantization error of groups of 32 values that have an outlier or a nonzero mean.
#pragma once

#include <vector>

#include "experiments/17_quantization/study.h"

namespace folio::experiments {

/// Statistics of a matrix's groups of 32 values.
struct GroupShape {
  double largest = 0.0;     ///< maximum over groups of max |w| / root mean square
  double typical = 0.0;     ///< mean over groups of max |w| / root mean square
  double off_centre = 0.0;  ///< mean over groups of |mean| / standard deviation
};
[[nodiscard]] GroupShape shape_of(const std::vector<float>& values);

/// Measures quantization errors of groups with an outlier, and the loss of a model with outliers in w2.
void plant_outliers(Study& s);

/// Measures quantization errors of groups with a nonzero mean.
void shift_groups(Study& s);

}  // namespace folio::experiments
