#include "train/step/optimizer.h"

#include "train/step/adamw.h"
#include "train/step/galore.h"
#include "train/step/muon.h"

namespace folio::train {

bool is_matrix_of_block(const std::string& name, const torch::Tensor& parameter) {
  return parameter.dim() >= 2 && name.starts_with("layers.");
}

std::unique_ptr<Optimizer> make_optimizer(const torch::nn::Module& model, const TrainConfig& config) {
  if (config.optimizer == OptimizerKind::Muon) return std::make_unique<Muon>(model, config);
  if (config.optimizer == OptimizerKind::GaLore) return std::make_unique<GaLore>(model, config);
  return std::make_unique<AdamW>(model, config);
}

}  // namespace folio::train
