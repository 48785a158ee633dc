// Trains a model with gradients computed by hand, to see how mistakes in them affect the loss.
#pragma once

#include "data/batches.h"
#include "experiments/11_gradients/by_hand.h"
#include "experiments/common/training.h"
#include "train/step/adamw.h"

namespace folio::experiments::by_hand {

/// An Update for train_model(model, text, config) that takes AdamW steps with the gradients of llama_backward instead
/// of autograd's. The constructor's arguments must outlive the object.
class HandUpdate {
 public:
  HandUpdate(nn::Llama& model, const Shakespeare& text, const train::TrainConfig& config, Mistake mistake);

  void operator()(double lr);

  /// Returns the cosine similarity between llama_backward's and autograd's gradients, averaged over all steps.
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
