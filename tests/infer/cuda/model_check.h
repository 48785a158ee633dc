// A whole model on a GPU and on the CPU, side by side over the same tokens: how far their logits are apart at each
// position, against a bound that is derived from the roundings in which the two differ (model_check.cpp says how).
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
  size_t n_drawn = 192;  ///< tokens that the CPU draws behind the prompt
  size_t n_runs = 4;     ///< of the CPU with perturbed numbers
  size_t n_threads = 0;  ///< of the CPU; 0: all cores
};

struct CheckResult {
  size_t n_positions = 0;
  double largest_difference = 0.0;  ///< |GPU - CPU| of any logit
  double median_bound = 0.0;
  double largest_share = 0.0;  ///< of its position's bound
  size_t n_outside = 0;        ///< positions with a logit beyond the bound
  size_t n_close = 0;          ///< positions where the CPU's two best are not further apart than twice the bound
  size_t n_other = 0;          ///< of those, positions where the GPU's likeliest token is another
  size_t n_wrong = 0;          ///< positions where it is another though they are further apart

  double n_other_of_cpu = 0.0;  ///< positions where a perturbed CPU's is another, in the mean of its runs

  /// All within the bound, no wrong token, and no more others than one position of a hundred, or than the CPU has
  /// against itself: its mean and three standard deviations of a count.
  [[nodiscard]] bool holds() const;
  [[nodiscard]] std::string to_string() const;
};

/// `machine` has a whole model. It reads the prompt in one step, and then token by token. Throws core::Error if a logit
/// is not finite.
[[nodiscard]] CheckResult check_model(const core::StoredModel& model, Machine& machine, std::span<const int32_t> prompt,
                                      const CheckOptions& options);

}  // namespace folio::infer::test
