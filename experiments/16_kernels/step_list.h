// The steps of the study in their order: what each runs, and what it counts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "experiments/16_kernels/memory.h"
#include "core/aligned_vector.h"

namespace folio::experiments {

/// One product with its random numbers: inputs, weights and results, one after the other.
struct Problem {
  core::AlignedVector<float> numbers;
  Product product;

  /// n and r as the steps want them: n is 1 or even, r a multiple of 4, k of 16.
  Problem(size_t n, size_t r, size_t k, uint64_t seed);
  [[nodiscard]] std::vector<float> results() const { return {product.out, product.out + product.n * product.r}; }
};

struct Step {
  std::string name;
  std::function<void(const Product&)> run;
  std::function<void(CountingMemory&, const Product&)> count;  ///< none: as the step before
  bool threads = false;
  bool in_order = true;  ///< adds in increasing order of k
};

/// For products of n inputs. `pool` has to outlive them.
[[nodiscard]] std::vector<Step> steps(core::ThreadPool& pool, size_t n);

/// The largest error, as a share of the bound for a sum of k products in any order (N. Higham, "Accuracy and Stability
/// of Numerical Algorithms", section 3.1): |error| <= k u / (1 - k u) Σ |x w|, with u = 2^-24.
[[nodiscard]] double error_by_bound(const Product& p, const std::vector<float>& results);

}  // namespace folio::experiments
