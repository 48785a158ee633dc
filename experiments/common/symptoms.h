// What is measured on a model to find a mistake in it; but for the last, before any training hides it.
#pragma once

#include <cstdint>

#include "experiments/common/shakespeare.h"
#include "experiments/common/variants.h"
#include "modules/llama.h"
#include "train/step/evaluate.h"

namespace folio::experiments {

/// How many of the vocabulary's tokens, each by itself, are not a number after the first norm.
[[nodiscard]] int64_t count_nans(nn::Llama model);

/// How many parameters the loss of `batch` does not depend on: their gradient is not there, or is 0 everywhere.
[[nodiscard]] int64_t count_without_gradient(nn::Llama model, const train::TensorBatch& batch);

/// The loss of `batch` before any step; ln of the vocabulary's size is that of knowing nothing.
[[nodiscard]] double first_loss(nn::Llama model, const train::TensorBatch& batch);

/// How the future gets into the past: 64 windows of the validation split, read at once, again with another last token,
/// and one position at a time with a cache.
struct Leak {
  double loss = 0.0;            ///< of the full pass
  double cached_loss = 0.0;     ///< of the same text, one position at a time with a cache
  double cached_change = 0.0;   ///< the largest difference between the logits of the two
  double earlier_change = 0.0;  ///< the largest change of an earlier logit when only the last token changes
};

/// `change` is what the model's blocks were made with.
[[nodiscard]] Leak look_for_leaks(nn::Llama model, const Shakespeare& text, int64_t window, const Change& change);

}  // namespace folio::experiments
