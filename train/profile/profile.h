// Where the time of a training step goes.
#pragma once

#include <string>
#include <vector>

#include "train/run/trainer.h"

namespace folio::train {

struct StepProfile {
  struct Item {
    std::string name;
    double seconds = 0.0;     ///< of a step
    double operations = 0.0;  ///< floating-point ones of a step; 0: not counted
  };
  std::vector<Item> items;    ///< in the order of a step's work; their times add up to a step's, measured with them
  double step_seconds = 0.0;  ///< the median of steps that nobody watched
};

/// Trains for some steps to warm up, then for `steps`, then for as many while LibTorch's profiler tells the operations'
/// own times apart. CPU only: a GPU works on after an operation's end.
[[nodiscard]] StepProfile profile_steps(Trainer& trainer, int64_t steps);

/// As a table: milliseconds, shares of the step, and shares of `peak` operations/s.
[[nodiscard]] std::string to_table(const StepProfile& profile, double peak);

}  // namespace folio::train
