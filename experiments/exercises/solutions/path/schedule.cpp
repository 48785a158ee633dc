#include <cmath>
#include <numbers>

#include "experiments/exercises/path/path.h"

namespace folio::exercises {

double learning_rate(const Schedule& s, size_t step) {
  if (step < s.warmup) return s.rate * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  const double done = static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup);
  return s.last_rate + (s.rate - s.last_rate) * (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
}

void clip(Floats& gradients, float limit) {
  double squares = 0.0;
  for (const float g : gradients) squares += static_cast<double>(g) * g;
  const auto length = static_cast<float>(std::sqrt(squares));
  if (length <= limit) return;
  for (float& g : gradients) g *= limit / length;
}

}  // namespace folio::exercises
