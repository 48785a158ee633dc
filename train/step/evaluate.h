// Mean losses of batches and of splits, in nats per token.
#pragma once

#include <torch/types.h>

#include <functional>

#include "data/batches.h"
#include "modules/llama.h"
#include "train/parallel/slices.h"

namespace folio::train {

/// Returns the mean loss over all targets, except ignored ones, of batches first .. first + n - 1. loss_of() must
/// return a batch's mean loss.
[[nodiscard]] double mean_loss(const std::function<double(const data::Batch&)>& loss_of, const data::BatchOf& batches,
                               uint64_t first, uint64_t n);

/// Returns the mean loss over a split, in consecutive windows of `window` tokens that are evaluated independently.
/// Tokens after the last whole window are not counted.
[[nodiscard]] double split_loss(nn::Llama& model, data::TokenView split, int64_t window, torch::Device device);

}  // namespace folio::train
