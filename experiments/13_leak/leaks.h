// Measurements that detect whether a trained model's predictions depend on later characters. Except for
// loss_as_the_tutorial_takes_it(), they run without dropout and on consecutive windows of a split.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "data/batches.h"
#include "experiments/13_leak/tutorial.h"

namespace folio::experiments::tutorial {

/// Changes the last character of 64 windows and returns the largest change of any logit at an earlier position.
[[nodiscard]] double change_from_last_character(Llama& model, std::span<const int32_t> split);

/// Returns [T, T] in double: how strongly the loss at position t (row) depends on character u (column), as the norm of
/// the gradient with respect to u's embedding, averaged over 64 windows.
[[nodiscard]] torch::Tensor gradient_map(Llama& model, std::span<const int32_t> split);

/// The results of all leak measurements for one model.
struct Findings {
  std::vector<double> losses{};  ///< mean loss at each position, [T]
  /// Mean loss at each position, [T], if all later inputs are from another window. Higher than `losses` where a
  /// prediction depends on later inputs; equal at the last position, which has none.
  std::vector<double> other_futures{};
  /// Mean loss at each position, [T], if the inputs end there: 1, 2, … T characters, as in generation.
  std::vector<double> without_future{};
  double change = 0.0;       ///< largest change of earlier logits if the last character changes
  double later_share = 0.0;  ///< fraction of the sum of gradient_map() that is due to later characters
};
/// Makes all measurements; those of losses use the first `windows` windows of `split`.
[[nodiscard]] Findings look_for_leaks(Llama& model, std::span<const int32_t> split, int64_t windows);

/// Returns the loss reduction due to later characters: the mean of other_futures - losses over all positions except
/// the last.
[[nodiscard]] double mean_gain_from_future(const Findings& findings);

/// Returns the fraction of the `length`-character sequences of `split` that also occur in `train`.
[[nodiscard]] double share_that_occurs(std::span<const int32_t> split, std::span<const int32_t> train, size_t length);

/// Returns the mean loss of ten random batches with dropout on the attention weights, which Kitano's notebook leaves on
/// in its evaluations. `number` selects the batches. Disables dropout on return.
[[nodiscard]] double loss_as_the_tutorial_takes_it(Llama& model, const data::BatchSampler& batches, uint64_t number);

}  // namespace folio::experiments::tutorial
