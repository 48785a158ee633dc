#include "train/parallel/collectives.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A collective and that of its backward pass. The base class lets an autograd context hold it.
struct Collective : torch::CustomClassHolder {
  using Send = std::function<Tensor(const Tensor&)>;
  Collective(Send forward_pass, Send backward_pass)
      : forward(std::move(forward_pass)), backward(std::move(backward_pass)) {}
  Send forward, backward;
};

struct CollectiveFunction : torch::autograd::Function<CollectiveFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const c10::intrusive_ptr<Collective>& collective) {
    context->saved_data["collective"] = c10::IValue::make_capsule(collective);
    return collective->forward(x.contiguous());
  }
  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const auto capsule = context->saved_data["collective"].toCapsule();
    return {static_cast<Collective&>(*capsule).backward(dys[0].contiguous()), {}};
  }
};

Tensor apply(const Tensor& x, const Group& group, Collective::Send forward, Collective::Send backward) {
  if (group.size() == 1) return x;
  return CollectiveFunction::apply(x, c10::make_intrusive<Collective>(std::move(forward), std::move(backward)));
}

}  // namespace

Tensor gather_rows(const Tensor& x, int64_t dim, Group& group) {
  return apply(
      x, group, [&group, dim](const Tensor& t) { return group.gather(t, dim); },
      [&group, dim](const Tensor& dt) { return group.sum_scatter(dt, dim); });
}

Tensor sum_scatter_rows(const Tensor& x, int64_t dim, Group& group) {
  return apply(
      x, group, [&group, dim](const Tensor& t) { return group.sum_scatter(t, dim); },
      [&group, dim](const Tensor& dt) { return group.gather(dt, dim); });
}

Tensor exchange_rows(const Tensor& x, const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                     Group& group) {
  return apply(
      x, group, [&group, sent, received](const Tensor& t) { return group.exchange(t, sent, received); },
      [&group, sent, received](const Tensor& dt) { return group.exchange(dt, received, sent); });
}

}  // namespace folio::train::parallel
