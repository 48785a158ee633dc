#include "train/step/adamw.h"

#include <ATen/ops/_fused_adamw.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

namespace folio::train {

AdamW::AdamW(const Parameters& parameters, const TrainConfig& config)
    : config_(config), groups_{Group{config.weight_decay}, Group{0.0}} {
  for (const auto& [name, p, cut_dim, ranks] : parameters.all) {
    const bool embedding = name.find("embeddings") != std::string::npos;
    const bool vector = p.dim() < 2 || name.ends_with(".bias");  // stacked biases of experts are 2-D
    const bool decays = vector ? config.decay_norms : !embedding || config.decay_embeddings;
    Group& group = groups_[decays ? 0 : 1];
    group.parameters.push_back(p);
    state_.push_back({"exp_avg." + name, group.first.emplace_back(torch::zeros_like(p))});
    state_.push_back({"exp_avg_sq." + name, group.second.emplace_back(torch::zeros_like(p))});
  }
}

void AdamW::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  ++steps_;  // bias correction counts from one
  for (Group& group : groups_) {
    if (group.parameters.empty()) continue;
    const auto scalar = [&](double value) {
      return torch::full({}, value, torch::dtype(torch::kFloat32).device(group.parameters[0].device()));
    };
    const std::vector<torch::Tensor> steps(group.parameters.size(), scalar(static_cast<double>(steps_)));
    std::optional<torch::Tensor> divisor;  // the kernel divides gradients by this
    if (gradient_scale != 1.0) divisor = scalar(1.0 / gradient_scale);
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& p : group.parameters) gradients.push_back(p.grad());
    at::_fused_adamw_(group.parameters, gradients, group.first, group.second, /*max_exp_avg_sqs=*/{}, steps, lr,
                      config_.beta1, config_.beta2, group.weight_decay, config_.adam_eps, /*amsgrad=*/false,
                      /*maximize=*/false, divisor);
    // The kernel does not bump versions, but values cached for the old weights must be invalidated.
    for (const torch::Tensor& p : group.parameters) torch::autograd::impl::bump_version(p);
  }
}

}  // namespace folio::train
