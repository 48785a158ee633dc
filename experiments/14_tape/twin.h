// The tape against LibTorch: the gradients of each operation and of the growing model's rungs, also against central
// differences, and the losses of a training from the same values on the same batches. LibTorch is seen in twin.cpp
// alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/14_tape/rungs.h"

namespace folio::tape {

/// The gradients of one case with random values.
struct Check {
  std::string name;
  double error;        ///< ‖tape − LibTorch‖ / ‖LibTorch‖, of the leaf where it is largest
  double limit;        ///< what rounding allows: the roundings on the longest way to a gradient, each half an ulp
  double differences;  ///< |tape − central difference| as a share of its tolerance, of the number where it is largest
};
[[nodiscard]] std::vector<Check> check_gradients(uint64_t seed);

/// How many roundings lie on the longest way from a rung's parameters to a gradient, for batches of B windows of T.
[[nodiscard]] double roundings(const Rung& rung, int64_t B, int64_t T);

/// The losses of a training by LibTorch: one for each batch, from before its step.
[[nodiscard]] std::vector<double> libtorch_losses(const Rung& rung, const std::vector<data::Batch>& batches);

}  // namespace folio::tape
