// A tensor as a module.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace folio::nn {

/// One tensor as a module, since a parameter's name is that of a module and one of its own: "router.weight".
class NamedTensorImpl : public torch::nn::Module {
 public:
  NamedTensorImpl(const char* name, const torch::Tensor& of, bool trained = true)
      : value(register_parameter(name, of, trained)) {}

  torch::Tensor value;
  torch::Tensor bias{};  ///< a second one, "bias": add_bias()

  void add_bias(const torch::Tensor& of) { bias = register_parameter("bias", of); }
};
TORCH_MODULE(NamedTensor);

}  // namespace folio::nn
