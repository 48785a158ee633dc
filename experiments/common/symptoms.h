// What is measured on an untrained model to find a mistake in it, before any training hides it.
#pragma once

#include <cstdint>

#include "modules/llama.h"
#include "train/evaluate.h"

namespace folio::experiments {

/// How many of the vocabulary's tokens, each by itself, are not a number after the first norm.
[[nodiscard]] int64_t count_nans(nn::Llama model);

/// How many parameters the loss of `batch` does not depend on: their gradient is not there, or is 0 everywhere.
[[nodiscard]] int64_t count_without_gradient(nn::Llama model, const train::TensorBatch& batch);

/// The loss of `batch` before any step; ln of the vocabulary's size is that of knowing nothing.
[[nodiscard]] double first_loss(nn::Llama model, const train::TensorBatch& batch);

}  // namespace folio::experiments
