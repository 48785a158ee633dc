#include "train/run/weights.h"

#include <torch/utils.h>

#include <utility>

#include "core/error.h"
#include "train/lora/lora.h"

namespace folio::train {

namespace {

std::vector<float> floats(const torch::Tensor& parameter, Copied what) {
  const torch::Tensor gradient = parameter.grad();
  if (what == Copied::Gradients && !gradient.defined()) return std::vector<float>(parameter.numel());
  const torch::Tensor& chosen = what == Copied::Gradients ? gradient : parameter;
  const torch::Tensor values = chosen.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
}

}  // namespace

core::Weights weights_of(const nn::Llama& model, Copied what) {
  core::Weights weights{.config = model->config()};
  const auto parameters = model->named_parameters();
  const auto manifest = core::tensor_manifest(weights.config);
  core::require(parameters.size() == manifest.size(), "the model has {} parameters, expected {} as in the manifest",
                parameters.size(), manifest.size());
  for (const core::TensorSpec& spec : manifest) {
    weights.tensors.push_back(floats(parameters[spec.module_name], what));
  }
  return weights;
}

core::Adapter adapter_of(const nn::Llama& model, const core::AdapterInfo& info, Copied what) {
  core::Adapter adapter;
  const auto parameters = model->named_parameters();
  for (const core::TensorSpec& spec : core::adaptable_matrices(model->config())) {
    const std::string module = lora::lora_module(spec);
    if (!parameters.contains(module + ".lora_a")) continue;
    adapter.parts.push_back({.role = spec.role,
                             .layer = spec.layer,
                             .rank = static_cast<size_t>(info.rank),
                             .scale = info.scale(),
                             .a = floats(parameters[module + ".lora_a"], what),
                             .b = floats(parameters[module + ".lora_b"], what)});
  }
  return adapter;
}

void load_adapter(const core::Adapter& adapter, nn::Llama& model) {
  const torch::NoGradGuard no_grad;
  auto parameters = model->named_parameters();
  for (const core::TensorSpec& spec : core::adaptable_matrices(model->config())) {
    const core::Adapter::Part* part = adapter.find(spec.role, spec.layer);
    const std::string module = lora::lora_module(spec);
    const bool here = parameters.contains(module + ".lora_a"), there = part != nullptr;
    core::require(here == there, "{}: {} adapter for {}", adapter.path, there ? "unexpected" : "missing", module);
    if (!here) continue;
    for (const auto& [name, values] : {std::pair(".lora_a", &part->a), std::pair(".lora_b", &part->b)}) {
      torch::Tensor& parameter = parameters[module + name];
      core::require(static_cast<size_t>(parameter.numel()) == values->size(),
                    "{}: the adapter for {} has a different rank than the run", adapter.path, module);
      parameter.copy_(torch::tensor(at::ArrayRef<float>(*values)).view(parameter.sizes()));
    }
  }
}

void load_weights(const core::StoredModel& file, nn::Llama& model) {
  const std::string difference = core::describe_difference(file.config, model->config());
  core::require(difference.empty(), "{}: the weights do not match the model: {}", file.path, difference);
  const torch::NoGradGuard no_grad;
  auto parameters = model->named_parameters();
  const auto manifest = core::tensor_manifest(file.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    std::vector<float> values = core::to_floats(file.tensors[i]);
    parameters[manifest[i].module_name].copy_(torch::from_blob(values.data(), manifest[i].shape, torch::kFloat32));
  }
}

}  // namespace folio::train
