// Compares a model's logits on a GPU with those of the CPU for the same tokens. The difference must be within a bound
// on the effect of rounding errors (see model_check.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/weights.h"
#include "infer/forward/machine.h"

namespace folio::infer::test {

struct CheckOptions {
  CacheType cache_type = CacheType::F16;
  size_t n_drawn = 192;  ///< tokens that the CPU draws after the prompt
  size_t n_runs = 4;     ///< runs of the CPU with perturbed values
  size_t n_threads = 0;  ///< threads of the CPU; 0: all cores
};

struct CheckResult {
  size_t n_positions = 0;
  double largest_difference = 0.0;  ///< maximum of |GPU - CPU| over all logits
  double median_bound = 0.0;
  double largest_share = 0.0;  ///< maximum of |GPU - CPU| / (bound of the position)
  size_t n_outside = 0;        ///< positions with a logit whose difference exceeds the bound
  size_t n_close = 0;          ///< positions where the CPU's two best logits differ by at most twice the bound
  size_t n_other = 0;          ///< positions counted in n_close where the GPU's likeliest token isn't the CPU's
  size_t n_wrong = 0;          ///< positions not counted in n_close where the GPU's likeliest token isn't the CPU's

  double n_other_of_cpu = 0.0;  ///< mean number of positions whose likeliest token changes in a perturbed CPU run

  /// Returns true if n_outside and n_wrong are 0, and n_other is at most 1 % of the positions or at most n_other_of_cpu
  /// plus three times its square root, the standard deviation of a count.
  [[nodiscard]] bool holds() const;
  [[nodiscard]] std::string to_string() const;
};

/// Compares the logits of `machine`, which runs all layers, with the CPU's: the prompt in as few steps as possible,
/// then the tokens that the CPU draws, one per step. Throws core::Error if a logit is not finite.
[[nodiscard]] CheckResult check_model(const core::StoredModel& model, Machine& machine, std::span<const int32_t> prompt,
                                      const CheckOptions& options);

}  // namespace folio::infer::test
