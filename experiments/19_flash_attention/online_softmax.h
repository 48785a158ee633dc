// Softmax of a row of scores times a matrix of values: computed for each block separately, then merged. Sums are in the
// engine's documented order (infer/reference/kernels.h), so float results equal the engine's bit for bit.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "infer/reference/reference.h"

namespace folio::experiments {

inline float exp_of(float x) { return infer::kernels::reference::exp(x); }
inline double exp_of(double x) { return std::exp(x); }

/// Online softmax state over a subset of positions, with scores s and values v: m = max s, l = Σ e^(s - m),
/// o = Σ e^(s - m) v.
template <std::floating_point T>
struct Partial {
  T m = -std::numeric_limits<T>::infinity();
  T l = 0;
  std::vector<T> o{};  ///< shape (head_dim)
};

/// Returns the sum of sixteen lanes by pairwise reduction: adds lane i + 8 to lane i, then i + 4, i + 2 and i + 1.
template <std::floating_point T>
T join_lanes(std::array<T, 16> lane) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

/// Computes the online softmax of one block, with scores (n) and row-major values (n, head_dim).
template <std::floating_point T>
Partial<T> of_block(std::span<const T> scores, const T* values, size_t head_dim) {
  Partial<T> block{.o = std::vector<T>(head_dim, 0)};
  for (const T s : scores) block.m = std::max(block.m, s);
  std::array<T, 16> lane{};
  for (size_t j = 0; j < scores.size(); ++j) {
    const T p = exp_of(scores[j] - block.m);
    lane[j % 16] += p;
    for (size_t d = 0; d < head_dim; ++d) block.o[d] = std::fma(p, values[j * head_dim + d], block.o[d]);
  }
  block.l = join_lanes(lane);
  return block;
}

/// Merges `block` into `total`, both rescaled to the larger maximum.
template <std::floating_point T>
void join(Partial<T>& total, const Partial<T>& block) {
  const T m = std::max(total.m, block.m);
  const T keep = exp_of(total.m - m);
  const T add = exp_of(block.m - m);
  total.m = m;
  total.l = std::fma(block.l, add, total.l * keep);
  for (size_t d = 0; d < total.o.size(); ++d) total.o[d] = std::fma(block.o[d], add, total.o[d] * keep);
}

/// Returns softmax(scores) · values over the positions merged into `total`: o / l.
template <std::floating_point T>
std::vector<T> finished(const Partial<T>& total) {
  std::vector<T> out = total.o;
  const T inverse = T{1} / total.l;
  for (T& x : out) x *= inverse;
  return out;
}

}  // namespace folio::experiments
