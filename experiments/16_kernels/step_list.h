// The optimization steps of the study in order, with what each runs and counts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

/// A product with random inputs and weights; inputs, weights and results are contiguous.
struct Problem {
  core::AlignedVector<float> numbers;
  Product product;

  /// The steps require n = 1 or even, r a multiple of 4, and k a multiple of 16.
  Problem(size_t n, size_t r, size_t k, uint64_t seed);
  [[nodiscard]] std::vector<float> results() const { return {product.out, product.out + product.n * product.r}; }
};

struct Step {
  std::string name;
  std::function<void(const Product&)> run;
  std::function<void(CountingMemory&, const Product&)> count;  ///< empty: same as the previous step
  bool threads = false;
  bool in_order = true;  ///< sums in increasing order of k
};

/// Returns the steps for products with n inputs. `pool` must outlive them.
[[nodiscard]] std::vector<Step> steps(core::ThreadPool& pool, size_t n);

/// Returns the largest error as a fraction of the bound for sums of k products in any order: |error| <= k u / (1 - k u)
/// Σ |x w| with u = 2^-24 (N. Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
[[nodiscard]] double error_by_bound(const Product& p, const std::vector<float>& results);

}  // namespace folio::experiments
