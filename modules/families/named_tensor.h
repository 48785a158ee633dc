// Parameters with dotted names, such as "router.weight", without a module class for each prefix.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace folio::nn {

/// Registers `value` as a parameter under a dotted name and returns it. Creates plain submodules for the name's
/// prefixes. `trained` is the parameter's requires_grad.
inline torch::Tensor register_named(torch::nn::Module& module, const std::string& name, const torch::Tensor& value,
                                    bool trained = true) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return module.register_parameter(name, value, trained);
  const std::string first = name.substr(0, dot);
  const auto children = module.named_children();
  const auto* child = children.find(first);
  const auto inner = child != nullptr ? *child : module.register_module(first, std::make_shared<torch::nn::Module>());
  return register_named(*inner, name.substr(dot + 1), value, trained);
}

}  // namespace folio::nn
