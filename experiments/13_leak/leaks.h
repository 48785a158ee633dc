// What is measured on a trained model to find out whether its positions see what comes after them. All of it without
// dropout and, but for the gradients, on consecutive windows of a split.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "data/batches.h"
#include "experiments/13_leak/tutorial.h"

namespace folio::experiments::tutorial {

/// The mean loss at each position, [T], over the first `windows` consecutive windows, or all where there are fewer.
[[nodiscard]] std::vector<double> losses_by_position(Llama& model, std::span<const int32_t> split, int64_t windows);

/// The same, where the loss at each position is that of a window whose later characters are another window's: the
/// text up to the position, and the character that has to be predicted, are as before. The last position has none.
[[nodiscard]] std::vector<double> losses_with_other_futures(Llama& model, std::span<const int32_t> split,
                                                            int64_t windows);

/// The same, where the model is given nothing after the position: windows of 1, 2, … T characters, as in generation.
[[nodiscard]] std::vector<double> losses_without_future(Llama& model, std::span<const int32_t> split, int64_t windows);

/// The largest change of a logit before the last position when the last character of 64 windows is another one.
[[nodiscard]] double change_from_last_character(Llama& model, std::span<const int32_t> split);

/// How strongly the loss at position t (row) depends on the character at u (column): the norm of the gradient by u's
/// embedding, its mean over 64 windows. [T, T] in double.
[[nodiscard]] torch::Tensor gradient_map(Llama& model, std::span<const int32_t> split);

/// All of that.
struct Findings {
  std::vector<double> losses{};          ///< by position
  std::vector<double> other_futures{};   ///< by position
  std::vector<double> without_future{};  ///< by position
  double change = 0.0;                   ///< change_from_last_character
  double later_share = 0.0;              ///< of the gradient map: what lies above its diagonal
};
[[nodiscard]] Findings look_for_leaks(Llama& model, std::span<const int32_t> split, int64_t windows);

/// What the future saves: the mean of other_futures - losses over all positions but the last, which has none.
[[nodiscard]] double mean_gain_from_future(const Findings& findings);

/// How many of the sequences of `length` characters in `split` occur in `train`, too, as a share.
[[nodiscard]] double share_that_occurs(std::span<const int32_t> split, std::span<const int32_t> train, size_t length);

/// The mean loss of ten random batches with dropout on the attention weights: the tutorial's evaluation. `number` says
/// which ten. Leaves the dropout off.
[[nodiscard]] double loss_as_the_tutorial_takes_it(Llama& model, const data::BatchSampler& batches, uint64_t number);

}  // namespace folio::experiments::tutorial
