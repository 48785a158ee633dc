// An exponential moving average of a model's weights (--ema), which is evaluated and saved in their place. Single steps
// leave noise in the weights that a mean over the last ones does not have (Polyak & Juditsky 1992).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace folio::train {

/// average = d average + (1 - d) weights after completed step `step`, with d = min(decay, (1 + step) / (10 + step)), so
/// that a short run's average soon forgets the initial weights (TensorFlow's ExponentialMovingAverage, num_updates).
void update_average(const std::vector<torch::Tensor>& average, const std::vector<torch::Tensor>& weights, double decay,
                    int64_t step);

}  // namespace folio::train
