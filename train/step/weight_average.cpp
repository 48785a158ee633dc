#include "train/step/weight_average.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <torch/utils.h>

#include <algorithm>

namespace folio::train {

void begin_average(nn::Llama& average, const nn::Llama& model) {
  const torch::NoGradGuard no_grad;
  at::_foreach_copy_(average->parameters(), model->parameters());
}

void update_average(nn::Llama& average, const nn::Llama& model, double decay, int64_t step) {
  const torch::NoGradGuard no_grad;
  const auto n = static_cast<double>(step);
  at::_foreach_lerp_(average->parameters(), model->parameters(), 1.0 - std::min(decay, (1.0 + n) / (10.0 + n)));
}

}  // namespace folio::train
