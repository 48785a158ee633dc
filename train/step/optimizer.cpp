#include "train/step/optimizer.h"

#include <torch/nn/module.h>

#include "core/error.h"
#include "train/step/adamw.h"
#include "train/step/galore.h"
#include "train/step/muon.h"

namespace folio::train {

Parameters::Parameters(const torch::nn::Module& model) {
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.value().requires_grad()) all.push_back({.name = parameter.key(), .tensor = parameter.value()});
  }
}

bool is_matrix_of_block(const std::string& name, const torch::Tensor& parameter) {
  return parameter.dim() >= 2 && name.starts_with("layers.") && !name.ends_with(".bias");  // experts' biases are none
}

std::unique_ptr<Optimizer> make_optimizer(const Parameters& parameters, const TrainConfig& config) {
  if (config.optimizer == OptimizerKind::Muon) return std::make_unique<Muon>(parameters, config);
  if (config.optimizer == OptimizerKind::GaLore) return std::make_unique<GaLore>(parameters, config);
  return std::make_unique<AdamW>(parameters, config);
}

}  // namespace folio::train
