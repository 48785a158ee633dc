// The mean loss of batches and of splits, in nats per token.
#pragma once

#include <torch/types.h>

#include <functional>

#include "data/batches.h"
#include "modules/llama.h"
#include "train/parallel/slices.h"

namespace folio::train {

/// The mean over all targets that count of `n` batches, from number `first` on; `loss_of` is a batch's own mean.
[[nodiscard]] double mean_loss(const std::function<double(const data::Batch&)>& loss_of, const data::BatchOf& batches,
                               uint64_t first, uint64_t n);

/// The mean over the whole split in consecutive windows of `window` tokens, each evaluated on its own. Tokens after the
/// last whole window are not counted, nor those that `document_end` (batches.h) leaves out.
[[nodiscard]] double split_loss(nn::Llama& model, data::TokenView split, int64_t window, torch::Device device,
                                data::DocumentEnd document_end = {});

}  // namespace folio::train
