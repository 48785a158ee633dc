#include "train/parallel/collectives.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Backward = std::function<variable_list(const Tensor&)>;

struct Held : torch::CustomClassHolder {  // derived, so that an autograd context can store it
  explicit Held(Backward pass) : backward(std::move(pass)) {}
  Backward backward;
};

struct HeldFunction : torch::autograd::Function<HeldFunction> {
  static Tensor forward(AutogradContext* context, at::TensorList /*inputs*/, const std::function<Tensor()>& forward,
                        const c10::intrusive_ptr<Held>& held) {
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    return forward();
  }
  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const auto capsule = context->saved_data["held"].toCapsule();
    variable_list dxs = std::exchange(static_cast<Held&>(*capsule).backward, {})(dys[0]);
    dxs.resize(dxs.size() + 2);  // no gradients for forward()'s last two arguments
    return dxs;
  }
};

}  // namespace

Tensor with_backward(at::TensorList inputs, const std::function<Tensor()>& forward, Backward backward) {
  return HeldFunction::apply(inputs, forward, c10::make_intrusive<Held>(std::move(backward)));
}

Tensor gather_rows(const Tensor& x, int64_t dim, Group& group) {
  return with_backward(
      {x}, [&] { return group.gather(x, dim); },
      [&group, dim](const Tensor& dy) { return variable_list{group.sum_scatter(dy, dim)}; });
}

Tensor sum_scatter_rows(const Tensor& x, int64_t dim, Group& group) {
  return with_backward(
      {x}, [&] { return group.sum_scatter(x, dim); },
      [&group, dim](const Tensor& dy) { return variable_list{group.gather(dy, dim)}; });
}

Tensor exchange_rows(const Tensor& x, const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                     Group& group) {
  return with_backward(
      {x}, [&] { return group.exchange(x, sent, received); },
      [&group, sent, received](const Tensor& dy) { return variable_list{group.exchange(dy, received, sent)}; });
}

}  // namespace folio::train::parallel
