// The learning rate as a pure function of the step.
#pragma once

#include "train/train_config.h"

namespace folio::train {

/// The rate of step 0, 1, …: it rises linearly to lr over warmup_steps, then falls by a half cosine to min_lr at
/// `steps` (Loshchilov & Hutter 2017), or stays at lr with schedule "constant".
[[nodiscard]] double learning_rate(const TrainConfig& config, int64_t step);

}  // namespace folio::train
