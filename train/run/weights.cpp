#include "train/run/weights.h"

#include <torch/utils.h>

#include <algorithm>
#include <utility>

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

// A tensor of each adapter's a and b.
template <typename Of>
core::Adapter collect_adapter(const nn::Llama& model, const lora::LoraOptions& options, Of&& of) {
  core::Adapter adapter;
  const auto parameters = model->named_parameters();
  const auto floats = [&](const std::string& name) {
    const torch::Tensor values = of(parameters[name]).detach().to(torch::kCPU, torch::kFloat32).contiguous();
    const float* data = values.template data_ptr<float>();
    return std::vector<float>(data, data + values.numel());
  };
  for (const core::TensorSpec& spec : core::adaptable_matrices(model->config())) {
    const std::string module = lora::lora_module(spec);
    if (!parameters.contains(module + ".lora_a")) continue;
    adapter.parts.push_back({.role = spec.role,
                             .layer = spec.layer,
                             .rank = static_cast<size_t>(options.rank),
                             .scale = static_cast<float>(options.alpha / static_cast<double>(options.rank)),
                             .a = floats(module + ".lora_a"),
                             .b = floats(module + ".lora_b")});
  }
  return adapter;
}

torch::Tensor gradient_of(const torch::Tensor& parameter) {
  return parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
}

}  // namespace

core::Weights weights_of(const nn::Llama& model) {
  return collect(model, [](const torch::Tensor& parameter) { return parameter; });
}

core::Weights gradients_of(const nn::Llama& model) { return collect(model, gradient_of); }

core::StoredModel stored_model(const core::Weights& weights) {
  return {.path = "the model in training",
          .format = core::ModelFormat::Gguf,
          .config = weights.config,
          .tensors = weights.views(),
          .storage = {},
          .gguf = {}};
}

core::Adapter adapter_of(const nn::Llama& model, const lora::LoraOptions& options) {
  return collect_adapter(model, options, [](const torch::Tensor& parameter) { return parameter; });
}

core::Adapter adapter_gradients_of(const nn::Llama& model, const lora::LoraOptions& options) {
  return collect_adapter(model, options, gradient_of);
}

void load_adapter(const core::Adapter& adapter, nn::Llama& model) {
  const torch::NoGradGuard no_grad;
  auto parameters = model->named_parameters();
  size_t n_read = 0;
  for (const core::TensorSpec& spec : core::adaptable_matrices(model->config())) {
    const core::Adapter::Part* part = adapter.find(spec.role, spec.layer);
    const std::string module = lora::lora_module(spec);
    const bool here = parameters.contains(module + ".lora_a"), there = part != nullptr;
    core::require(here == there, "{}: {} an adapter of {}", adapter.path, there ? "it has" : "it lacks", module);
    if (!here) continue;
    for (const auto& [name, values] : {std::pair(".lora_a", &part->a), std::pair(".lora_b", &part->b)}) {
      torch::Tensor& parameter = parameters[module + name];
      core::require(static_cast<size_t>(parameter.numel()) == values->size(), "{}: {} has another rank than the run's",
                    adapter.path, module);
      parameter.copy_(torch::tensor(at::ArrayRef<float>(*values)).view(parameter.sizes()));
    }
    ++n_read;
  }
  core::require(n_read == adapter.parts.size(), "{}: it has adapters of other matrices", adapter.path);
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
