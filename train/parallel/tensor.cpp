#include "train/parallel/tensor.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <utility>

#include "train/parallel/collectives.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

class TensorParallelImpl : public torch::nn::Module {
 public:
  TensorParallelImpl(torch::nn::AnyModule inner, Group& group) : inner_(std::move(inner)), group_(group) {
    // Register inner's children instead of inner, so that parameters keep their names in the whole model.
    for (const auto& child : inner_.ptr()->named_children()) register_module(child.key(), child.value());
  }

  Tensor forward(const Tensor& x_BTD, const Tensor& starts_BT = {}) {
    constexpr int64_t kT = 1;
    const Tensor all_BTD = gather_rows(x_BTD, kT, group_);
    const Tensor term_BTD = starts_BT.defined() ? inner_.forward(all_BTD, starts_BT) : inner_.forward(all_BTD);
    return sum_scatter_rows(term_BTD, kT, group_);
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
