#include "train/lora/with_backward.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace folio::train {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Backward = std::function<variable_list(const Tensor&)>;

struct BackwardCapsule : torch::CustomClassHolder {  // derived, so that an autograd context can store it
  explicit BackwardCapsule(Backward pass) : backward(std::move(pass)) {}
  Backward backward;
};

struct ClosureFunction : torch::autograd::Function<ClosureFunction> {
  static Tensor forward(AutogradContext* context, at::TensorList /*inputs*/, const std::function<Tensor()>& forward,
                        const c10::intrusive_ptr<BackwardCapsule>& held) {
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    return forward();
  }
  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const auto capsule = context->saved_data["held"].toCapsule();
    variable_list dxs = std::exchange(static_cast<BackwardCapsule&>(*capsule).backward, {})(dys[0]);
    dxs.resize(dxs.size() + 2);  // no gradients for forward()'s last two arguments
    return dxs;
  }
};

}  // namespace

Tensor with_backward(at::TensorList inputs, const std::function<Tensor()>& forward, Backward backward) {
  return ClosureFunction::apply(inputs, forward, c10::make_intrusive<BackwardCapsule>(std::move(backward)));
}

}  // namespace folio::train
