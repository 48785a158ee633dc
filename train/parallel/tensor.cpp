#include "train/parallel/tensor.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <utility>

#include "train/lora/with_backward.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr int64_t kPositionDim = 1;  // index of the dimension of positions in [B, T, D]

// Differentiable all-gather of the ranks' positions. The backward pass reduce-scatters the gradients.
Tensor gathered_positions(const Tensor& x, Group& group) {
  return with_backward(
      {x}, [&] { return group.gather(x, kPositionDim); },
      [&group](const Tensor& dy) { return std::vector{group.sum_scatter(dy, kPositionDim)}; });
}

// Differentiable reduce-scatter: returns this rank's positions of the sum. The backward pass all-gathers the gradients.
Tensor scattered_sum(const Tensor& x, Group& group) {
  return with_backward(
      {x}, [&] { return group.sum_scatter(x, kPositionDim); },
      [&group](const Tensor& dy) { return std::vector{group.gather(dy, kPositionDim)}; });
}

class TensorParallelImpl : public torch::nn::Module {
 public:
  TensorParallelImpl(torch::nn::AnyModule inner, Group& group) : inner_(std::move(inner)), group_(group) {
    // Register inner's children instead of inner, so that parameters keep their names in the whole model.
    for (const auto& child : inner_.ptr()->named_children()) register_module(child.key(), child.value());
  }

  Tensor forward(const Tensor& x_BTD, const Tensor& starts_BT = {}) {
    const Tensor all_BTD = gathered_positions(x_BTD, group_);
    const Tensor term_BTD = starts_BT.defined() ? inner_.forward(all_BTD, starts_BT) : inner_.forward(all_BTD);
    return scattered_sum(term_BTD, group_);
  }

  void train(bool on) override {
    torch::nn::Module::train(on);
    inner_.ptr()->train(on);
  }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(Tensor())})

 private:
  torch::nn::AnyModule inner_;
  Group& group_;
};
TORCH_MODULE(TensorParallel);

}  // namespace

torch::nn::AnyModule tensor_parallel(torch::nn::AnyModule inner, Group& tensor) {
  if (tensor.size() == 1) return inner;
  return torch::nn::AnyModule(TensorParallel(std::move(inner), tensor));
}

}  // namespace folio::train::parallel
