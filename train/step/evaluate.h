// The mean loss of batches and of splits, in nats per token.
#pragma once

#include <torch/types.h>

#include "data/batches.h"
#include "modules/llama.h"

namespace folio::train {

/// A batch as int64 tensors [rows, length] on `device`.
struct TensorBatch {
  torch::Tensor inputs_BT;
  torch::Tensor targets_BT;
  torch::Tensor starts_BT;  ///< undefined where the batch has none
};
[[nodiscard]] TensorBatch to_tensors(const data::Batch& batch, torch::Device device);

/// The mean over all targets that count of `n` batches, from number `first` on.
[[nodiscard]] double mean_loss(nn::Llama& model, const data::BatchOf& batches, uint64_t first, uint64_t n,
                               torch::Device device);

/// The mean over the whole split in consecutive windows of `window` tokens, each evaluated on its own.
/// The fewer than `window` tokens after the last whole window are not counted, and with `document_end` (batches.h)
/// those of a window's second document on.
[[nodiscard]] double split_loss(nn::Llama& model, data::TokenView split, int64_t window, torch::Device device,
                                data::DocumentEnd document_end = {});

}  // namespace folio::train
