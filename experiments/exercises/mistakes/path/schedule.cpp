#include <algorithm>
#include <cmath>
#include <numbers>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/path/path.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  FromZero,
  WholeNumbers,
  NoWarmup,
  WarmupCounted,
  ToZero,
  DoneInWholeNumbers,
  StraightLine,
  AlwaysToTheLimit,
  EachByItself,
  NoRoot,
  ToOne,
};
using WrongOf = Wrong();

template <Wrong kWrong>
Wrong is() {
  return kWrong;
}

const std::vector<Mistake<WrongOf>> kMistakes{
    {"from_zero", "TheWarmupIsALine", "0 is what step / warmup gives", is<Wrong::FromZero>},
    {"whole_numbers", "TheWarmupIsALine", "whole number in C++", is<Wrong::WholeNumbers>},
    {"no_warmup", "TheWarmupIsALine", "is 8, but", is<Wrong::NoWarmup>},
    {"warmup_counted", "TheCosineBeginsAtTheHighestRate", "were counted", is<Wrong::WarmupCounted>},
    {"to_zero", "HalfWayTheRateIsInTheMiddle", "is 4, but", is<Wrong::ToZero>},
    {"done_in_whole_numbers", "HalfWayTheRateIsInTheMiddle", "is 8, but", is<Wrong::DoneInWholeNumbers>},
    {"straight_line", "TheCosineIsRound", "is 6.5, but", is<Wrong::StraightLine>},
    {"always_to_the_limit", "ShortGradientsStay", "a limit and no goal", is<Wrong::AlwaysToTheLimit>},
    {"each_by_itself", "LongGradientsGetTheLimit", "is 2.5, but", is<Wrong::EachByItself>},
    {"no_root", "LongGradientsGetTheLimit", "is 0.3, but", is<Wrong::NoRoot>},
    {"to_one", "LongGradientsGetTheLimit", "is 0.6, but", is<Wrong::ToOne>},
};

Wrong wrong() { return chosen(kMistakes, is<Wrong::None>)(); }

}  // namespace

double learning_rate(const Schedule& s, size_t step) {
  const Wrong w = wrong();
  const auto real = [](size_t n) { return static_cast<double>(n); };
  if (step < s.warmup && w != Wrong::NoWarmup) {
    if (w == Wrong::WholeNumbers) return s.rate * real((step + 1) / s.warmup);
    return s.rate * real(w == Wrong::FromZero ? step : step + 1) / real(s.warmup);
  }
  const size_t late = std::max(step, s.warmup) - s.warmup, all = s.steps - s.warmup;
  double done = real(late) / real(all);
  if (w == Wrong::WarmupCounted) done = real(step) / real(s.steps);
  if (w == Wrong::DoneInWholeNumbers) done = real(late / all);
  const double last = w == Wrong::ToZero ? 0.0 : s.last_rate;
  const double height = w == Wrong::StraightLine ? 1.0 - done : (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
  return last + (s.rate - last) * height;
}

void clip(Floats& gradients, float limit) {
  const Wrong w = wrong();
  float squares = 0.0F;
  for (const float g : gradients) squares += g * g;
  const float length = w == Wrong::NoRoot ? squares : std::sqrt(squares);
  if (length <= limit && w != Wrong::AlwaysToTheLimit) return;
  for (float& g : gradients) {
    g = w == Wrong::EachByItself ? std::clamp(g, -limit, limit) : g * (w == Wrong::ToOne ? 1.0F : limit) / length;
  }
}

}  // namespace folio::exercises
