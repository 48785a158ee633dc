#include "train/fused/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

#include "train/fused/operations.h"

namespace folio::train::fused {
namespace {

using torch::Tensor;

Tensor dropped(const Tensor& x, double probability, int64_t key) {
  const Dropout dropout = make_dropout(probability, static_cast<uint64_t>(key), 0);
  const auto x_ND = x.contiguous().flatten(0, -2);
  return (x.scalar_type() == torch::kDouble ? drop<double>(x_ND, dropout) : drop<float>(x_ND, dropout)).view(x.sizes());
}

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, double probability, int64_t key) {
    context->saved_data["probability"] = probability;
    context->saved_data["key"] = key;
    return dropped(x, probability, key);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& douts) {
    return {
        dropped(douts[0], context->saved_data["probability"].toDouble(), context->saved_data["key"].toInt()), {}, {}};
  }
};

}  // namespace

int64_t random_key() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return static_cast<int64_t>(at::check_generator<at::CPUGeneratorImpl>(generator)->random64() >> 2U);
}

Tensor dropout(const Tensor& x, double probability) { return DropoutFunction::apply(x, probability, random_key()); }

}  // namespace folio::train::fused
