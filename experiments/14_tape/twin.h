// Compares the tape with LibTorch: gradients of each operation and of the models of rungs.h (also with central
// differences), and training losses with the same initialization and batches. Only twin.cpp uses LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/14_tape/rungs.h"

namespace folio::tape {

/// The comparison of the gradients of one operation or model, at random input and parameter values.
struct Check {
  std::string name;
  double error;        ///< ‖tape − LibTorch‖ / ‖LibTorch‖, maximum over the leaves
  double limit;        ///< bound on `error`: half an ulp per rounding on the longest path to a gradient
  double differences;  ///< |tape − central difference| as a fraction of its tolerance, maximum over elements
};
[[nodiscard]] std::vector<Check> check_gradients(uint64_t seed);

/// Returns the number of rounding errors on the longest path from a model's parameters to a gradient, for batches of B
/// windows with T positions.
[[nodiscard]] double roundings(const Rung& rung, int64_t B, int64_t T);

/// Trains with LibTorch, one step per batch. Returns each batch's loss before the step.
[[nodiscard]] std::vector<double> libtorch_losses(const Rung& rung, const std::vector<data::Batch>& batches);

}  // namespace folio::tape
