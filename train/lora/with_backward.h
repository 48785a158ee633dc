// Differentiable functions with a hand-written backward pass, without an autograd class for each of them.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace folio::train {

/// Returns forward(), computed without autograd. `backward` maps the result's gradient to the gradients of `inputs`. It
/// is called at most once, and then destroyed with everything that it captured. It may capture a detached copy of the
/// result, but not the result itself: its graph owns `backward`, so without a backward pass neither would be freed.
[[nodiscard]] torch::Tensor with_backward(
    at::TensorList inputs, const std::function<torch::Tensor()>& forward,
    std::function<std::vector<torch::Tensor>(const torch::Tensor& gradient)> backward);

}  // namespace folio::train
