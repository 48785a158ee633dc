#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace folio::train {

double learning_rate(const TrainConfig& c, int64_t step) {
  if (step < c.warmup_steps) return c.lr * static_cast<double>(step + 1) / static_cast<double>(c.warmup_steps);
  if (c.schedule == "constant") return c.lr;
  const double length = static_cast<double>(std::max<int64_t>(1, c.steps - c.warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - c.warmup_steps) / length);
  return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1.0 + std::cos(std::numbers::pi * done));
}

}  // namespace folio::train
