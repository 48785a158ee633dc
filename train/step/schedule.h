// The learning rate as a pure function of the step.
#pragma once

#include "train/config/train_config.h"

namespace folio::train {

/// The rate of step 0, 1, …: it rises linearly to lr over warmup_steps. Then, by schedule:
///   constant  it stays at lr
///   cosine    it falls to min_lr at `steps`, by a half cosine (Loshchilov & Hutter 2017)
///   linear    it falls to min_lr at `steps`, along a line
///   wsd       warm-up, stable, decay (Hu et al. 2024, MiniCPM): it stays at lr, and falls to min_lr within the last
///             decay_fraction of the steps, as 1 - sqrt of the part that is done (Hägele et al. 2024)
[[nodiscard]] double learning_rate(const TrainConfig& config, int64_t step);

}  // namespace folio::train
