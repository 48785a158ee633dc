// Training with gradients by hand.
#pragma once

#include "data/batches.h"
#include "experiments/11_gradients/by_hand.h"
#include "experiments/common/training.h"
#include "train/step/adamw.h"

namespace folio::experiments::by_hand {

/// An Update for train_model(model, text, config): AdamW's steps with the gradients of llama_backward in the place of
/// autograd's. All four live as long as it does.
class HandUpdate {
 public:
  HandUpdate(nn::Llama& model, const Shakespeare& text, const train::TrainConfig& config, Mistake mistake);

  void operator()(double lr);

  /// The mean over the steps of cos(angle between the gradient by hand and autograd's), of all parameters together.
  [[nodiscard]] double mean_cosine() const;

 private:
  nn::Llama& model_;
  const train::TrainConfig& config_;
  Mistake mistake_;
  data::BatchSampler batches_;
  train::AdamW adamw_;
  uint64_t steps_ = 0;
  double cosines_ = 0.0;
};

}  // namespace folio::experiments::by_hand
