// One training step: forward, loss, backward, sum over ranks, gradient clipping, optimizer. train/run/trainer.h calls
// it with the batches of each step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/error.h"
#include "data/batches.h"
#include "train/config/train_config.h"
#include "train/parallel/rank_model.h"
#include "train/step/optimizer.h"

namespace folio::train {

struct StepLoss {
  double loss;                       ///< mean over the step's targets in nats, without losses of --balance and --mtp
  std::optional<double> mtp_loss{};  ///< mean loss of the MTP module (--mtp) over its targets
};
struct StepResult : StepLoss {
  double grad_norm;  ///< global gradient norm before clipping
  double lr;         ///< learning rate of this step
};

/// Thrown if the loss or the gradient norm is not finite. A resumed run would repeat it.
class Diverged : public core::Error {
 public:
  using core::Error::Error;
};

/// Computes the gradients of this rank's part of the batches' mean loss, plus the losses of --balance and --mtp.
/// Returns the mean losses, and in `chosen`, per mixture, the number of rows on all ranks that each expert received,
/// int64 [experts].
StepLoss forward_backward(parallel::RankModel& model, const TrainConfig& config,
                          const std::vector<data::Batch>& batches, std::vector<torch::Tensor>& chosen);

/// Runs step `number`, counted from 0. Calls `on_gradients`, unless empty, before gradients are clipped. Throws
/// Diverged, before any weight changes, if the loss or a gradient is not finite.
StepResult train_step(parallel::RankModel& model, Optimizer& optimizer, const TrainConfig& config, int64_t number,
                      const std::vector<data::Batch>& batches, const std::function<void()>& on_gradients);

}  // namespace folio::train
