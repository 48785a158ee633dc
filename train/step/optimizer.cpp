#include "train/step/optimizer.h"

#include "train/step/adamw.h"
#include "train/step/muon.h"

namespace folio::train {

std::unique_ptr<Optimizer> make_optimizer(const torch::nn::Module& model, const TrainConfig& config) {
  if (config.optimizer == OptimizerKind::Muon) return std::make_unique<Muon>(model, config);
  return std::make_unique<AdamW>(model, config);
}

}  // namespace folio::train
