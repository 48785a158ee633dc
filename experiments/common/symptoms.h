// Measurements that reveal mistakes in a model. All but look_for_leaks are meant for an untrained model.
#pragma once

#include <cstdint>

#include "experiments/common/shakespeare.h"
#include "experiments/common/variants.h"
#include "modules/llama.h"
#include "train/step/evaluate.h"

namespace folio::experiments {

/// Returns the number of vocabulary tokens for which the first layer's norm outputs NaN.
[[nodiscard]] int64_t count_nans(nn::Llama model);

/// Returns the number of parameter tensors for which the gradient of the loss of `batch` is undefined or entirely 0.
[[nodiscard]] int64_t count_without_gradient(nn::Llama model, const train::TensorBatch& batch);

/// Returns the model's loss on `batch`. A uniform prediction would have the loss ln(vocabulary size).
[[nodiscard]] double first_loss(nn::Llama model, const train::TensorBatch& batch);

/// The dependence of predictions on later tokens, measured on 64 windows of the validation split. A full pass computes
/// all positions in one forward(); decoding computes one position at a time with a KV cache and can't depend on later
/// tokens.
struct Leak {
  double loss = 0.0;            ///< loss of a full pass
  double cached_loss = 0.0;     ///< loss of decoding
  double cached_change = 0.0;   ///< largest difference between the logits of a full pass and of decoding
  double earlier_change = 0.0;  ///< largest change of earlier logits in a full pass when only the last token changes
};

/// Measures the dependence on later tokens in windows of `window` tokens. `model` must have been built with
/// changed_blocks(…, change).
[[nodiscard]] Leak look_for_leaks(nn::Llama model, const Shakespeare& text, int64_t window, const Change& change);

}  // namespace folio::experiments
