// The error bound of blockwise softmax, and two checks of its exactness.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// Returns n numbers, uniform in [-scale, scale).
template <typename T>
std::vector<T> random_numbers(size_t n, double scale, uint64_t seed) {
  std::vector<T> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<T>(scale * (2.0 * core::random_uniform(seed, i) - 1.0));
  return x;
}

/// Returns a bound on |error| / Σ p |v|, with softmax weights p and values v: half an ulp per rounding, for `n`
/// positions in blocks of `block` and scores in an interval of length `range`. Derived in README.md, "How exact".
template <typename T>
double error_bound(size_t n, size_t block, double range) {
  const size_t n_blocks = (n + block - 1) / block;
  const double k = 2.0 * (range + 6.0 * static_cast<double>(n_blocks) + static_cast<double>(std::min(n, block)));
  const double u = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2.0;
  return k * u / (1.0 - k * u);
}

/// Checks that merging blocks in any order yields the softmax, up to error_bound().
void check_any_order(Report& report);

/// Checks that merging blocks in the documented order reproduces the engine's attention bit for bit, and that the
/// reverse order does not.
void check_engines_order(Report& report);

}  // namespace folio::experiments
