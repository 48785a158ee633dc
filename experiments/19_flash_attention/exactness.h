// How far the softmax in blocks may be from the exact one, and two proofs about it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "experiments/common/report.h"

namespace folio::experiments {

/// A bound of |error| / Σ p |v| for `n` positions in blocks of `block`, whose scores lie within `range`: so many
/// roundings meet in an output, each of half a unit in the last place. Derived in README.md, "How exact".
template <typename T>
double error_bound(size_t n, size_t block, double range) {
  const size_t n_blocks = (n + block - 1) / block;
  const double k = 2.0 * (range + 6.0 * static_cast<double>(n_blocks) + static_cast<double>(std::min(n, block)));
  const double u = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2.0;
  return k * u / (1.0 - k * u);
}

/// Claims that every order of the blocks gives the softmax, within a bound that is derived (README.md, "How exact").
void claim_any_order(Report& report);

/// Claims that the order which the engine documents gives the engine's bits, and that the reversed one doesn't.
void claim_engines_order(Report& report);

}  // namespace folio::experiments
