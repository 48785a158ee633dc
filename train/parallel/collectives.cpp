#include "train/parallel/collectives.h"

#include <torch/csrc/autograd/custom_function.h>

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The base class lets an autograd context hold it.
struct HeldGroup : torch::CustomClassHolder {
  explicit HeldGroup(Group& held) : group(held) {}
  Group& group;
};

struct GatherFunction : torch::autograd::Function<GatherFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t dim, Group* group) {
    save_group(*context, *group);
    context->saved_data["dim"] = dim;
    return group->gather(x.contiguous(), dim);
  }
  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const int64_t dim = context->saved_data["dim"].toInt();
    return {saved_group(*context).sum_scatter(dys[0].contiguous(), dim), {}, {}};
  }
};

struct SumScatterFunction : torch::autograd::Function<SumScatterFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t dim, Group* group) {
    save_group(*context, *group);
    context->saved_data["dim"] = dim;
    return group->sum_scatter(x.contiguous(), dim);
  }
  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const int64_t dim = context->saved_data["dim"].toInt();
    return {saved_group(*context).gather(dys[0].contiguous(), dim), {}, {}};
  }
};

struct ExchangeFunction : torch::autograd::Function<ExchangeFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::vector<int64_t>& sent,
                        const std::vector<int64_t>& received, Group* group) {
    save_group(*context, *group);
    context->saved_data["sent"] = sent;
    context->saved_data["received"] = received;
    return group->exchange(x.contiguous(), sent, received);
  }
  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const auto sent = context->saved_data["sent"].toIntVector();
    const auto received = context->saved_data["received"].toIntVector();
    return {saved_group(*context).exchange(dys[0].contiguous(), received, sent), {}, {}, {}};
  }
};

}  // namespace

Tensor gather_rows(const Tensor& x, int64_t dim, Group& group) {
  return group.size() == 1 ? x : GatherFunction::apply(x, dim, &group);
}

Tensor sum_scatter_rows(const Tensor& x, int64_t dim, Group& group) {
  return group.size() == 1 ? x : SumScatterFunction::apply(x, dim, &group);
}

Tensor exchange_rows(const Tensor& x, const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                     Group& group) {
  return group.size() == 1 ? x : ExchangeFunction::apply(x, sent, received, &group);
}

void save_group(AutogradContext& context, Group& group) {
  context.saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<HeldGroup>(group));
}

Group& saved_group(AutogradContext& context) {
  const auto capsule = context.saved_data["group"].toCapsule();
  return static_cast<HeldGroup&>(*capsule).group;
}

}  // namespace folio::train::parallel
