// The optimization steps of a matrix product, in the order of the study, and random operands for them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

/// A matrix product with random inputs and weights. `numbers` stores inputs, weights and results, in this order.
struct Problem {
  core::AlignedVector<float> numbers;
  Product product;

  /// Draws inputs and weights in [-1, 1). `n` must be 1 or even, `r` a multiple of 4, and `k` a multiple of 16.
  Problem(size_t n, size_t r, size_t k, uint64_t seed);
  [[nodiscard]] std::vector<float> results() const { return {product.out, product.out + product.n * product.r}; }
};

struct Step {
  std::string name;
  std::function<void(const Product&)> run;
  /// The step with access counting. If empty, the counts of the previous step apply.
  std::function<void(CountingMemory&, const Product&)> count;
  bool threads = false;
  bool in_order = true;  ///< whether the products of each output are added in increasing order of k
};

/// Returns the study's optimization steps for products with `n` input rows. `pool` must outlive the returned steps.
[[nodiscard]] std::vector<Step> steps(core::ThreadPool& pool, size_t n);

/// Returns the largest error of `results` divided by its bound, k u / (1 - k u) Σ |x w| with u = 2^-24 for a sum of k
/// products in any order (N. Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
[[nodiscard]] double error_by_bound(const Product& p, const std::vector<float>& results);

}  // namespace folio::experiments
