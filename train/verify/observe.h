// Looks into a model: the intermediates of a forward pass, by name, of whatever parts the model is made of.
#pragma once

#include <functional>
#include <string>

#include "modules/llama.h"

namespace folio::train {

/// Is called with each named activation of a forward pass. It may keep the tensor, and must not change it.
using Observer = std::function<void(const std::string& name, const torch::Tensor& value)>;

/// The logits of `tokens`, as the model's forward() has them. The observer gets "embedding"; with the prefix
/// "layers.N." for each of a block's branches, "attention" and "ffn", its input as NAME_norm, its output as NAME, and
/// the sum as NAME_residual; "norm" and "logits". Blocks have to call their parts: those of train/fused don't.
torch::Tensor forward_observed(nn::Llama& model, const torch::Tensor& tokens, const Observer& observer);

}  // namespace folio::train
