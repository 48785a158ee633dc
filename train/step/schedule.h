// The learning rate as a pure function of the step.
#pragma once

#include "train/config/train_config.h"

namespace folio::train {

/// Returns the learning rate of a step, counted from 0. It rises linearly to lr over warmup_steps. Then, by schedule:
///   constant  stays at lr
///   cosine    decays to min_lr at `steps` along a half cosine (Loshchilov & Hutter 2017)
///   linear    decays to min_lr at `steps` linearly
///   wsd       warm-up, stable, decay (Hu et al. 2024, MiniCPM): stays at lr, then decays to min_lr over the last
///             decay_fraction of the steps as 1 - √(fraction of the decay done) (Hägele et al. 2024)
[[nodiscard]] double learning_rate(const TrainConfig& config, int64_t step);

}  // namespace folio::train
