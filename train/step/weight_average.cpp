#include "train/step/weight_average.h"

#include <ATen/ops/_foreach_lerp.h>
#include <torch/utils.h>

#include <algorithm>

namespace folio::train {

void update_average(const std::vector<torch::Tensor>& average, const std::vector<torch::Tensor>& weights, double decay,
                    int64_t step) {
  const torch::NoGradGuard no_grad;
  const auto n = static_cast<double>(step);
  at::_foreach_lerp_(average, weights, 1.0 - std::min(decay, (1.0 + n) / (10.0 + n)));
}

}  // namespace folio::train
