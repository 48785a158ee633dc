// Measurements that reveal mistakes in a model. All but look_for_leaks are meant for an untrained model.
#pragma once

#include <cstdint>

#include "experiments/common/shakespeare.h"
#include "experiments/common/variants.h"
#include "modules/llama.h"
#include "train/step/evaluate.h"

namespace folio::experiments {

/// Returns the number of vocabulary tokens whose vector, alone in a sequence, has a NaN after the first norm.
[[nodiscard]] int64_t count_nans(nn::Llama model);

/// Returns the number of parameters whose gradient of the loss of `batch` is undefined or 0 everywhere.
[[nodiscard]] int64_t count_without_gradient(nn::Llama model, const train::TensorBatch& batch);

/// Returns the loss of `batch` before any step; a uniform prediction has ln(vocabulary size).
[[nodiscard]] double first_loss(nn::Llama model, const train::TensorBatch& batch);

/// Measures how far predictions depend on later tokens, on 64 windows of the validation split: full passes, passes with
/// a different last token, and decoding one position at a time with a KV cache.
struct Leak {
  double loss = 0.0;            ///< of the full pass
  double cached_loss = 0.0;     ///< when decoding one position at a time with a KV cache
  double cached_change = 0.0;   ///< largest difference between the logits of both
  double earlier_change = 0.0;  ///< largest change of an earlier position's logits when only the last token changes
};

/// Measures `model`. `change` must be the one that its blocks were made with.
[[nodiscard]] Leak look_for_leaks(nn::Llama model, const Shakespeare& text, int64_t window, const Change& change);

}  // namespace folio::experiments
