// Runs a Llama model, even one with replaced modules, and passes activations such as "layers.0.ffn" to a callback.
#pragma once

#include <functional>
#include <string>

#include "modules/llama.h"

namespace folio::train {

/// Called with each named activation of a forward pass. The callback may keep the tensor but must not modify it.
using Observer = std::function<void(const std::string& name, const torch::Tensor& value)>;

/// Returns the logits of `tokens`, equal to the model's forward(). Reports "embedding", "norm" and "logits"; for each
/// block N, attention's input "layers.N.attention_norm", its output "layers.N.attention" and the residual sum
/// "layers.N.attention_residual"; the same for "ffn". Does not support fused blocks, which do not call their modules.
torch::Tensor forward_observed(nn::Llama& model, const torch::Tensor& tokens, const Observer& observer);

}  // namespace folio::train
