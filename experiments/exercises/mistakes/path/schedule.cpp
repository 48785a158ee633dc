// The mistakes, each with the test that must fail first and words of its message:
//     from_zero: TheWarmupIsALine: 0 is what step / warmup gives
//     whole_numbers: TheWarmupIsALine: whole number in C++
//     no_warmup: TheWarmupIsALine: is 8, but
//     warmup_counted: TheCosineBeginsAtTheHighestRate: were counted
//     to_zero: HalfWayTheRateIsInTheMiddle: is 4, but
//     done_in_whole_numbers: HalfWayTheRateIsInTheMiddle: is 8, but
//     straight_line: TheCosineIsRound: is 6.5, but
//     always_to_the_limit: ShortGradientsStay: a limit and no goal
//     each_by_itself: LongGradientsGetTheLimit: is 2.5, but
//     no_root: LongGradientsGetTheLimit: is 0.3, but
//     to_one: LongGradientsGetTheLimit: is 0.6, but
#include <algorithm>
#include <cmath>
#include <numbers>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {

double learning_rate(const Schedule& s, size_t step) {
  const auto real = [](size_t n) { return static_cast<double>(n); };
  if (step < s.warmup && !wrong("no_warmup")) {
    if (wrong("whole_numbers")) return s.rate * real((step + 1) / s.warmup);
    return s.rate * real(wrong("from_zero") ? step : step + 1) / real(s.warmup);
  }
  const size_t late = std::max(step, s.warmup) - s.warmup, all = s.steps - s.warmup;
  double done = real(late) / real(all);
  if (wrong("warmup_counted")) done = real(step) / real(s.steps);
  if (wrong("done_in_whole_numbers")) done = real(late / all);
  const double last = wrong("to_zero") ? 0.0 : s.last_rate;
  const double height = wrong("straight_line") ? 1.0 - done : (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
  return last + (s.rate - last) * height;
}

void clip(Floats& gradients, float limit) {
  float squares = 0.0F;
  for (const float g : gradients) squares += g * g;
  const float length = wrong("no_root") ? squares : std::sqrt(squares);
  if (length <= limit && !wrong("always_to_the_limit")) return;
  for (float& g : gradients) {
    g = wrong("each_by_itself") ? std::clamp(g, -limit, limit) : g * (wrong("to_one") ? 1.0F : limit) / length;
  }
}

}  // namespace folio::exercises
