#include "train/step/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace folio::train {

double learning_rate(const TrainConfig& c, int64_t step) {
  if (step < c.warmup_steps) return c.lr * static_cast<double>(step + 1) / static_cast<double>(c.warmup_steps);
  int64_t first = c.warmup_steps;  // first step of the decay
  if (c.schedule == ScheduleKind::Wsd) {
    const auto length = static_cast<int64_t>(std::llround(c.decay_fraction * static_cast<double>(c.steps)));
    first = std::max(first, c.steps - length);
  }
  const double length = static_cast<double>(std::max<int64_t>(1, c.steps - first));
  const double done = std::min(1.0, static_cast<double>(step - first) / length);  // decay progress; < 0 if not started
  if (c.schedule == ScheduleKind::Constant || done < 0.0) return c.lr;
  double left = 1.0 - done;  // (rate - min_lr) / (lr - min_lr)
  if (c.schedule == ScheduleKind::Cosine) left = 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  if (c.schedule == ScheduleKind::Wsd) left = 1.0 - std::sqrt(done);
  return c.min_lr + (c.lr - c.min_lr) * left;
}

}  // namespace folio::train
