#include "experiments/10_optimizers/optimizers.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "train/step/muon.h"

namespace folio::experiments {

Optimizer::Optimizer(const nn::Llama& model, const OptimizerOptions& options) : options_(options) {
  for (const auto& parameter : model->named_parameters()) {
    const torch::Tensor& p = parameter.value();
    const bool matrix_of_block = p.dim() == 2 && parameter.key().starts_with("layers.");
    slots_.push_back({.parameter = p,
                      .first = torch::zeros_like(p),
                      .second = torch::zeros_like(p),
                      .rule = options.rule == Rule::Muon && !matrix_of_block ? Rule::AdamW : options.rule,
                      .decays = p.dim() == 2});
  }
}

void Optimizer::step(double lr) {
  const torch::NoGradGuard no_grad;
  ++steps_;
  for (Slot& slot : slots_) update(slot, lr);
}

void Optimizer::update(Slot& slot, double lr) const {
  const torch::Tensor& g = slot.parameter.grad();
  const double decay = slot.decays ? options_.weight_decay : 0.0;
  switch (slot.rule) {
    case Rule::Sgd:
      slot.first.mul_(options_.momentum).add_(g);
      slot.parameter.sub_(lr * slot.first);
      return;
    case Rule::Scaled:
      slot.first.mul_(options_.momentum).add_(g);
      slot.parameter.sub_(lr * slot.first / (slot.first.square().mean().sqrt() + options_.eps));
      return;
    case Rule::Muon: {
      slot.first.mul_(options_.momentum).add_(g);
      const torch::Tensor ahead = g + options_.momentum * slot.first;  // Nesterov momentum
      // orthogonalized() makes all singular values about 1. The factor gives updates an RMS of √(1 / columns).
      const double rows = static_cast<double>(g.size(0)), columns = static_cast<double>(g.size(1));
      slot.parameter.mul_(1.0 - lr * decay);
      slot.parameter.sub_(lr * std::sqrt(std::max(1.0, rows / columns)) * train::orthogonalized(ahead));
      return;
    }
    case Rule::Adam:
    case Rule::AdamL2:
    case Rule::AdamW:
      update_by_adam(slot, options_.rule == Rule::Muon ? options_.adamw_share * lr : lr);
      return;
  }
}

void Optimizer::update_by_adam(Slot& slot, double lr) const {
  const double decay = slot.decays ? options_.weight_decay : 0.0;
  torch::Tensor g = slot.parameter.grad();
  if (slot.rule == Rule::AdamL2) g = g + decay * slot.parameter;
  slot.first.mul_(options_.beta1).add_(g, 1.0 - options_.beta1);
  slot.second.mul_(options_.beta2).addcmul_(g, g, 1.0 - options_.beta2);
  // Correct the bias of the averages, which start at 0.
  const auto step = static_cast<double>(steps_);
  const torch::Tensor mean = slot.first / (1.0 - std::pow(options_.beta1, step));
  const torch::Tensor size = (slot.second / (1.0 - std::pow(options_.beta2, step))).sqrt() + options_.eps;
  if (slot.rule == Rule::AdamW) slot.parameter.mul_(1.0 - lr * decay);
  slot.parameter.addcdiv_(mean, size, -lr);
}

}  // namespace folio::experiments
