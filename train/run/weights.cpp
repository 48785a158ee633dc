#include "train/run/weights.h"

#include <torch/utils.h>

#include "core/error.h"

namespace folio::train {

namespace {

// A tensor of each parameter, in the manifest's order.
template <typename Of>
core::Weights collect(const nn::Llama& model, Of&& of) {
  core::Weights weights{.config = model->config(), .tensors = {}};
  const auto parameters = model->named_parameters();
  const auto manifest = core::tensor_manifest(weights.config);
  core::require(parameters.size() == manifest.size(), "the model has {} parameters, but the manifest lists {}",
                parameters.size(), manifest.size());
  for (const core::TensorSpec& spec : manifest) {
    const torch::Tensor* parameter = parameters.find(spec.module_name);
    core::require(parameter != nullptr && parameter->sizes().vec() == spec.shape,
                  "the model has no parameter {} of shape {}", spec.module_name, core::shape_string(spec.shape));
    const torch::Tensor values = of(*parameter).detach().to(torch::kCPU, torch::kFloat32).contiguous();
    const float* data = values.template data_ptr<float>();
    weights.tensors.emplace_back(data, data + values.numel());
  }
  return weights;
}

}  // namespace

core::Weights weights_of(const nn::Llama& model) {
  return collect(model, [](const torch::Tensor& parameter) { return parameter; });
}

core::Weights gradients_of(const nn::Llama& model) {
  return collect(model, [](const torch::Tensor& parameter) {
    return parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
  });
}

void load_weights(const core::Weights& weights, nn::Llama& model) {
  const std::string difference = core::describe_difference(weights.config, model->config());
  core::require(difference.empty(), "the weights are of another model: {}", difference);
  const torch::NoGradGuard no_grad;
  auto parameters = model->named_parameters();
  const auto manifest = core::tensor_manifest(weights.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    torch::Tensor* parameter = parameters.find(manifest[i].module_name);
    core::require(parameter != nullptr, "the model has no parameter {}", manifest[i].module_name);
    // from_blob does not copy; copy_ does.
    auto* data = const_cast<float*>(weights.tensors[i].data());
    parameter->copy_(torch::from_blob(data, manifest[i].shape, torch::kFloat32));
  }
}

}  // namespace folio::train
