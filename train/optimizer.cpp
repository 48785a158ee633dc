#include "train/optimizer.h"

#include "train/adamw.h"

namespace folio::train {

std::unique_ptr<Optimizer> make_optimizer(const torch::nn::Module& model, const TrainConfig& config) {
  return std::make_unique<AdamW>(model, config);
}

}  // namespace folio::train
