// Conversion between a LibTorch model and core::Weights, which core/ writes to files.
#pragma once

#include "core/formats/model_files.h"
#include "modules/llama.h"

namespace folio::train {

/// Copies of all parameters, in the manifest's order. Throws core::Error if the model has other parameters.
[[nodiscard]] core::Weights weights_of(const nn::Llama& model);

/// Copies of all gradients, in the same order; zeros for a parameter without one.
[[nodiscard]] core::Weights gradients_of(const nn::Llama& model);

/// Copies the weights into the model's parameters. Throws core::Error if the configurations differ.
void load_weights(const core::Weights& weights, nn::Llama& model);

}  // namespace folio::train
