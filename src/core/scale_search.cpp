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

// Four groups of 32 values, and the weight of each value's squared error.
struct WeightedGroups {
  explicit WeightedGroups(const LaneGroups<32>& values) : x(values) {
    Lanes sum_xx{};
    for (const Lanes v : x) sum_xx += v * v;
    const Lanes rms = root(sum_xx / 32.0F);
    for (size_t i = 0; i < x.size(); ++i) {
      weights[i] = rms + magnitude(x[i]);
      sum_w += weights[i];
      sum_wx += weights[i] * x[i];
    }
  }

  [[nodiscard]] LaneGroups<32> levels(Lanes by, Lanes from, int32_t top) const {
    LaneGroups<32> levels;
    for (size_t i = 0; i < x.size(); ++i) levels[i] = to_floats(nearest(by * (x[i] - from), 0, top));
    return levels;
  }

  [[nodiscard]] Lanes error(const LaneGroups<32>& levels, Lanes scale, Lanes low) const {
    Lanes error{};
    for (size_t i = 0; i < x.size(); ++i) {
      const Lanes apart = scale * levels[i] + low - x[i];
      error += weights[i] * (apart * apart);
    }
    return error;
  }

  const LaneGroups<32>& x;
  LaneGroups<32> weights;
  Lanes sum_w{};
  Lanes sum_wx{};
};

}  // namespace

AffineFit fit_affine(const LaneGroups<32>& x, const AffineSearch& search) {
  const WeightedGroups groups(x);
  Lanes low = x[0];
  Lanes high = x[0];
  for (const Lanes v : x) {
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  low = low > 0.0F ? Lanes{} : low;

  // If all values of a group are equal and at most 0, `by` is not finite, and the scale and all levels are 0.
  const auto top = static_cast<float>(search.top);
  AffineFit fit{.scale = {}, .low = low, .by = top / (high - low), .from = low};
  fit.scale = 1.0F / fit.by;
  Lanes least = groups.error(groups.levels(fit.by, low, search.top), fit.scale, low);

  for (int32_t step = 0; step <= search.last; ++step) {
    const Lanes by = (search.first + 0.1F * static_cast<float>(step) + top) / (high - fit.low);
    const LaneGroups<32> levels = groups.levels(by, fit.low, search.top);
    Lanes sum_wl{};
    Lanes sum_wll{};
    Lanes sum_wlx{};
    for (size_t i = 0; i < x.size(); ++i) {
      const Lanes weighted = groups.weights[i] * levels[i];
      sum_wl += weighted;
      sum_wll += weighted * levels[i];
      sum_wlx += weighted * x[i];
    }
    // Solves the normal equations of scale * level + lowest = x for scale and lowest.
    const Lanes determinant = groups.sum_w * sum_wll - sum_wl * sum_wl;
    Lanes scale = (groups.sum_w * sum_wlx - groups.sum_wx * sum_wl) / determinant;
    Lanes lowest = (sum_wll * groups.sum_wx - sum_wl * sum_wlx) / determinant;
    const IntLanes positive = lowest > 0.0F;
    scale = positive ? sum_wlx / sum_wll : scale;
    lowest = positive ? Lanes{} : lowest;

    const Lanes error = groups.error(levels, scale, lowest);
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
  Lanes extreme{};  // first value of largest magnitude
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
