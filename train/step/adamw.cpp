#include "train/step/adamw.h"

#include <ATen/ops/_fused_adamw.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

namespace folio::train {

AdamW::AdamW(const Parameters& parameters, const TrainConfig& config,
             const std::function<bool(const std::string& name, const torch::Tensor& parameter)>& takes)
    : beta1_(config.beta1), beta2_(config.beta2), eps_(config.adam_eps) {
  Group decayed{.weight_decay = config.weight_decay}, plain{.weight_decay = 0.0};
  for (const auto& [name, p, cut_dim, ranks] : parameters.all) {
    if (takes && !takes(name, p)) continue;
    parameters_.push_back(p);
    moments_.push_back({name, torch::zeros_like(p), torch::zeros_like(p)});
    const bool embedding = name.find("embeddings") != std::string::npos;
    const bool vector = p.dim() < 2 || name.ends_with(".bias");  // of all experts, too
    const bool decays = vector ? config.decay_norms : !embedding || config.decay_embeddings;
    Group& group = decays ? decayed : plain;
    group.parameters.push_back(p);
    group.first.push_back(moments_.back().first);
    group.second.push_back(moments_.back().second);
    group.steps.push_back(torch::zeros({}, torch::dtype(torch::kFloat32).device(p.device())));
  }
  for (Group& group : {std::ref(decayed), std::ref(plain)}) {
    if (!group.parameters.empty()) groups_.push_back(std::move(group));
  }
}

std::vector<Optimizer::State> AdamW::state() const {
  std::vector<State> all;
  for (const Moments& moments : moments_) {
    all.push_back({"exp_avg." + moments.name, moments.first});
    all.push_back({"exp_avg_sq." + moments.name, moments.second});
  }
  return all;
}

void AdamW::set_steps(int64_t steps) {
  steps_ = steps;
  for (Group& group : groups_) {
    for (torch::Tensor& step : group.steps) step.fill_(static_cast<double>(steps));
  }
}

void AdamW::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  set_steps(steps_ + 1);                 // the kernel's bias correction counts from one
  std::optional<torch::Tensor> divisor;  // of the gradients, in the kernel's own pass
  if (gradient_scale != 1.0 && !parameters_.empty()) {
    divisor = torch::full({}, 1.0 / gradient_scale, torch::dtype(torch::kFloat32).device(parameters_[0].device()));
  }
  for (Group& group : groups_) {
    std::vector<torch::Tensor> gradients;
    gradients.reserve(group.parameters.size());
    for (const torch::Tensor& p : group.parameters) gradients.push_back(p.grad());
    at::_fused_adamw_(group.parameters, gradients, group.first, group.second, /*max_exp_avg_sqs=*/{}, group.steps, lr,
                      beta1_, beta2_, group.weight_decay, eps_, /*amsgrad=*/false, /*maximize=*/false, divisor);
    // The kernel does not do so, and what is derived from the weights must be computed anew.
    for (const torch::Tensor& p : group.parameters) torch::autograd::impl::bump_version(p);
  }
}

MatrixOptimizer::MatrixOptimizer(const Parameters& parameters, const TrainConfig& config)
    : others_(parameters, config,
              [](const std::string& name, const torch::Tensor& p) { return !is_matrix_of_block(name, p); }),
      parameters_(others_.parameters()) {
  for (const Trained& trained : parameters.all) {
    if (!is_matrix_of_block(trained.name, trained.tensor)) continue;
    matrices_.push_back(trained);
    parameters_.push_back(trained.tensor);
  }
}

std::vector<Optimizer::State> MatrixOptimizer::state() const {
  std::vector<State> all = state_of_matrices();
  for (State& state : others_.state()) all.push_back(std::move(state));
  return all;
}

}  // namespace folio::train
