// Reports the named activations of a model's forward pass, for any Parts.
#pragma once

#include <functional>
#include <string>

#include "modules/llama.h"

namespace folio::train {

/// Called with each named activation of a forward pass. It may keep the tensor but must not modify it.
using Observer = std::function<void(const std::string& name, const torch::Tensor& value)>;

/// Returns the logits of `tokens`, equal to the model's forward(). Reports "embedding"; for each block and branch,
/// "attention" and "ffn", the input "layers.N.NAME_norm", output "layers.N.NAME" and sum "layers.N.NAME_residual";
/// "norm" and "logits". Does not work with fused blocks (train/fused), which do not call their parts.
torch::Tensor forward_observed(nn::Llama& model, const torch::Tensor& tokens, const Observer& observer);

}  // namespace folio::train
