#include "core/scale_search.h"

#include <cmath>

namespace folio::core {
namespace {

Lanes magnitude(Lanes value) { return std::bit_cast<Lanes>(std::bit_cast<IntLanes>(value) & 0x7FFFFFFF); }
Lanes to_floats(IntLanes value) { return __builtin_convertvector(value, Lanes); }

Lanes root(Lanes value) {
  for (size_t i = 0; i < kLanes; ++i) value[i] = std::sqrt(value[i]);
  return value;
}

}  // namespace

AffineFit fit_affine(const LaneGroups<32>& x, const AffineSearch& search) {
  const auto top = static_cast<float>(search.top);
  Lanes sum_xx{};
  for (const Lanes v : x) sum_xx += v * v;
  const Lanes rms = root(sum_xx / 32.0F);

  LaneGroups<32> weights;
  Lanes low = x[0];
  Lanes high = x[0];
  Lanes sum_w{};
  Lanes sum_wx{};
  for (size_t i = 0; i < x.size(); ++i) {
    weights[i] = rms + magnitude(x[i]);
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sum_w += weights[i];
    sum_wx += weights[i] * x[i];
  }
  low = low > 0.0F ? Lanes{} : low;

  LaneGroups<32> levels;
  const auto error_of = [&](Lanes scale, Lanes lowest) {
    Lanes error{};
    for (size_t i = 0; i < x.size(); ++i) {
      const Lanes apart = scale * levels[i] + lowest - x[i];
      error += weights[i] * (apart * apart);
    }
    return error;
  };

  // For a group of equal values, `by` is infinite: the scale and all levels are 0.
  AffineFit fit{.scale = {}, .low = low, .by = top / (high - low), .from = low};
  fit.scale = 1.0F / fit.by;
  for (size_t i = 0; i < x.size(); ++i) levels[i] = to_floats(nearest(fit.by * (x[i] - low), 0, search.top));
  Lanes least = error_of(fit.scale, low);

  for (int32_t step = 0; step <= search.last; ++step) {
    const Lanes by = (search.first + 0.1F * static_cast<float>(step) + top) / (high - fit.low);
    Lanes sum_wl{};
    Lanes sum_wll{};
    Lanes sum_wlx{};
    for (size_t i = 0; i < x.size(); ++i) {
      levels[i] = to_floats(nearest(by * (x[i] - fit.low), 0, search.top));
      const Lanes weighted = weights[i] * levels[i];
      sum_wl += weighted;
      sum_wll += weighted * levels[i];
      sum_wlx += weighted * x[i];
    }
    // Solves the normal equations of scale * level + lowest = x for scale and lowest.
    const Lanes determinant = sum_w * sum_wll - sum_wl * sum_wl;
    Lanes scale = (sum_w * sum_wlx - sum_wx * sum_wl) / determinant;
    Lanes lowest = (sum_wll * sum_wx - sum_wl * sum_wlx) / determinant;
    const IntLanes positive = lowest > 0.0F;
    scale = positive ? sum_wlx / sum_wll : scale;
    lowest = positive ? Lanes{} : lowest;

    const Lanes error = error_of(scale, lowest);
    const IntLanes better = (determinant > 0.0F) & (error < least);
    least = better ? error : least;
    fit = {.scale = better ? scale : fit.scale,
           .low = better ? lowest : fit.low,
           .by = better ? by : fit.by,
           .from = better ? fit.low : fit.from};
  }
  return fit;
}

SymmetricFit fit_symmetric(const LaneGroups<16>& x) {
  Lanes extreme{};  // the value of largest magnitude, the first of several
  for (const Lanes v : x) extreme = magnitude(v) > magnitude(extreme) ? v : extreme;

  Lanes sum_wxl;
  Lanes sum_wll;
  const auto add_up = [&](Lanes by) {
    sum_wxl = sum_wll = Lanes{};
    for (const Lanes v : x) {
      const Lanes level = to_floats(nearest(by * v, -32, 31));
      const Lanes weight = v * v;
      sum_wxl += weight * v * level;
      sum_wll += weight * level * level;
    }
  };

  SymmetricFit fit{.scale = {}, .by = -32.0F / extreme, .zero = magnitude(extreme) < kNearlyZero};
  add_up(fit.by);
  fit.scale = sum_wll != 0.0F ? sum_wxl / sum_wll : Lanes{};
  Lanes best = fit.scale * sum_wxl;  // decrease of the error relative to a scale of 0
  for (int32_t step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const Lanes by = -(32.0F + 0.1F * static_cast<float>(step)) / extreme;
    add_up(by);
    const IntLanes better = (sum_wll > 0.0F) & (sum_wxl * sum_wxl > best * sum_wll);
    fit.scale = better ? sum_wxl / sum_wll : fit.scale;
    fit.by = better ? by : fit.by;
    best = better ? fit.scale * sum_wxl : best;
  }
  fit.scale = fit.zero ? Lanes{} : fit.scale;
  return fit;
}

}  // namespace folio::core
