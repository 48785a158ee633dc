// The loss of a split, in nats per token.
#pragma once

#include <torch/types.h>

#include "data/batches.h"
#include "modules/llama.h"

namespace folio::train {

/// A batch as int64 tensors [rows, length] on `device`: inputs and targets.
struct TensorBatch {
  torch::Tensor inputs_BT;
  torch::Tensor targets_BT;
};
[[nodiscard]] TensorBatch to_tensors(const data::Batch& batch, torch::Device device);

/// The mean over the whole split in consecutive windows of `window` tokens, each evaluated on its own.
/// The fewer than `window` tokens after the last whole window are not counted, and with `document_end` (batches.h)
/// those of a window's second document on.
[[nodiscard]] double split_loss(nn::Llama& model, data::TokenView split, int64_t window, torch::Device device,
                                data::DocumentEnd document_end = {});

/// The mean over the tokens of `n` random batches, numbers `first` to first + n - 1 of the sampler.
[[nodiscard]] double random_batches_loss(nn::Llama& model, const data::BatchSampler& sampler, int64_t n, uint64_t first,
                                         torch::Device device);

}  // namespace folio::train
