// One training step: batches, forward, loss, backward, the sum over ranks, clipping, the optimizer. The trainer
// (train/run/trainer.h) decides on what and when.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/batches.h"
#include "train/config/train_config.h"
#include "train/parallel/rank_model.h"
#include "train/step/optimizer.h"

namespace folio::train {

struct StepResult {
  double loss;       ///< nats, the mean over the step's tokens, without that of --balance
  double grad_norm;  ///< of all gradients together, before clipping
};

/// Gradients of the mean loss of these batches, and of --balance's; of several ranks, of their own part of it. Returns
/// the loss, and in `chosen`, of each mixture, the rows of all ranks that took each expert, int64 [experts].
double forward_backward(parallel::RankModel& model, const TrainConfig& config, const std::vector<data::Batch>& batches,
                        std::vector<torch::Tensor>& chosen);

/// Step `number`, the first is 0. `see_gradients` is called before they are clipped; it may be empty. Throws
/// core::Error, before any weight is changed, if the loss or a gradient is not finite.
StepResult train_step(parallel::RankModel& model, Optimizer& optimizer, const TrainConfig& config, int64_t number,
                      const std::vector<data::Batch>& batches, const std::function<void()>& see_gradients);

}  // namespace folio::train
